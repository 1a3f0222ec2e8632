// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// CheckDecision fails the test unless the policy answers the snapshot with the intents that want
// has, as text and in that order, each with a reason. CheckDecision returns the intents.
func CheckDecision[S any](t *testing.T, policy *sdk.Stateless[S], s *sdk.Snapshot, want []string) []sdk.Intent {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	intents := policy.Answer(s, policy.Settings)
	var got []string
	for _, i := range intents {
		got = append(got, i.String())
		if i.Reason == "" {
			t.Errorf("%v has no reason", i)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	return intents
}
