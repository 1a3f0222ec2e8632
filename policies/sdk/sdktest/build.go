// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"fmt"
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
	if err := buildProgram(program, source); err != nil {
		t.Fatal(err)
	}
	return program
}

// buildProgram builds a package or a folder of Go. Linking takes seconds. `go run` keeps the programs that it links in
// Go's cache, which `go build` does not: a program is linked once for the tests of all packages, until its source
// changes, and with -trimpath once for all clones. Here `go run` runs cp, which copies the program.
func buildProgram(program, source string) error {
	if out, err := exec.Command("go", "run", "-trimpath", "-exec", "cp", source, program).CombinedOutput(); err != nil { //nolint:gosec // the caller's own
		return fmt.Errorf("go run %s: %w: %s", source, err, out)
	}
	return nil
}

// BuildFolder builds policies that come with preemptd, and returns the folder of their programs as they are
// installed: sing-policy-NAME is a link for each name.
func BuildFolder(t testing.TB, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	if err := BuildInto(folder, names...); err != nil {
		t.Fatal(err)
	}
	return folder
}

// BuildInto is BuildFolder for tests that share a folder.
func BuildInto(folder string, names ...string) error {
	program := filepath.Join(folder, "policy")
	if err := buildProgram(program, ours); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Symlink(program, filepath.Join(folder, sdk.ProgramPrefix+name)); err != nil {
			return err
		}
	}
	return nil
}

// BuildPolicy builds a policy that comes with preemptd, and returns its program.
func BuildPolicy(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(BuildFolder(t, name), sdk.ProgramPrefix+name)
}
