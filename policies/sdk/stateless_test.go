// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// TestStatelessCheck: a policy without Check takes all of its settings, and a policy with Check refuses the settings
// for which Check returns an error.
func TestStatelessCheck(t *testing.T) {
	type settings struct {
		Hours int `json:"hours"`
	}
	p := &sdk.Stateless[settings]{}
	if err := p.Configure([]byte(`{"hours": 3}`)); err != nil || p.Settings.Hours != 3 {
		t.Errorf("without Check: %v, %+v", err, p.Settings)
	}
	refused := errors.New("refused")
	p.Check = func(settings) error { return refused }
	if err := p.Configure([]byte(`{"hours": 4}`)); !errors.Is(err, refused) {
		t.Errorf("with Check: %v", err)
	}
}
