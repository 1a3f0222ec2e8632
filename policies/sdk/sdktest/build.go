// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// ours is the package of the policies that come with preemptd, which are a single program.
const ours = "github.com/singularity-slurm/singularity-slurm/policies"

// Build builds the policy of a package or a folder of Go, and returns its program, in a folder of the test.
func Build(t testing.TB, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "policy")
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil { //nolint:gosec // the caller's own
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// BuildFolder builds policies that come with preemptd, and returns the folder of their programs as they are
// installed: sing-policy-NAME is a link for each name.
func BuildFolder(t testing.TB, names ...string) string {
	t.Helper()
	folder, program := filepath.Split(Build(t, ours))
	for _, name := range names {
		if err := os.Symlink(program, filepath.Join(folder, sdk.ProgramPrefix+name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// BuildPolicy builds a policy that comes with preemptd, and returns its program.
func BuildPolicy(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(BuildFolder(t, name), sdk.ProgramPrefix+name)
}
