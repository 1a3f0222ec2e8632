// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// policyVariable has this test's program be a policy that panics at a question.
const policyVariable = "SDKTEST_POLICY"

func TestMain(m *testing.M) {
	if os.Getenv(policyVariable) != "" {
		sdk.Serve(&sdk.Stateless[struct{}]{
			About:  sdk.Description{Name: "panics", Version: "1", Summary: "panics when it is asked"},
			Answer: func(*sdk.Snapshot, struct{}) []sdk.Intent { panic("no answer to this") },
		})
		return
	}
	os.Exit(m.Run())
}

// recorder is a test of which the log is kept, and which ends when the recorder is told to.
type recorder struct {
	testing.TB
	log    strings.Builder
	atEnds []func()
}

func (r *recorder) Logf(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) }

func (r *recorder) Cleanup(f func()) { r.atEnds = append(r.atEnds, f) }

// TestStderr: the panic of a policy is in the log of the test that has started the policy.
func TestStderr(t *testing.T) {
	t.Setenv(policyVariable, "panics")
	r := &recorder{TB: t}
	c := Start(r, os.Args[0])
	if _, err := c.Decide(t.Context(), sdk.Encode(&sdk.Snapshot{Time: Now})); err == nil {
		t.Error("Decide of a policy that panics returned no error")
	}
	for _, f := range r.atEnds {
		f()
	}
	if !strings.Contains(r.log.String(), "panic: no answer to this") {
		t.Errorf("the log:\n%s", r.log.String())
	}
}
