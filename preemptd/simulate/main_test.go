// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// policiesFolder is where the tests' policies are built.
var policiesFolder string

func TestMain(m *testing.M) {
	var err error
	if policiesFolder, err = os.MkdirTemp("", "simulate-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(policiesFolder)
	os.Exit(status)
}

// linkPolicies builds the policies that come with preemptd once for all tests, since linking takes longer than most of them.
var linkPolicies = sync.OnceValue(func() error {
	program := filepath.Join(policiesFolder, "policies")
	if out, err := exec.Command("go", "build", "-o", program, "../../policies").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, name := range []string{"tiers", "elastic"} {
		if err := os.Symlink(program, filepath.Join(policiesFolder, sdk.ProgramPrefix+name)); err != nil {
			return err
		}
	}
	return nil
})

// buildPolicy returns the program of a policy that comes with preemptd.
func buildPolicy(t *testing.T, name string) string {
	t.Helper()
	if err := linkPolicies(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(policiesFolder, sdk.ProgramPrefix+name)
}
