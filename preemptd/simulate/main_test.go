// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
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

// buildPolicies builds the policies once for all tests.
var buildPolicies = sync.OnceValue(func() error { return sdktest.BuildInto(policiesFolder, "tiers", "elastic") })

// buildPolicy returns the program of a policy that comes with preemptd.
func buildPolicy(t *testing.T, name string) string {
	t.Helper()
	if err := buildPolicies(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(policiesFolder, sdk.ProgramPrefix+name)
}
