// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"strings"
	"syscall"
	"testing"
)

// TestWardenOptions: the behaviour of a warden without a capsule.
func TestWardenOptions(t *testing.T) {
	needRoot(t)
	const ours = 125 << 8
	byEnv := func(options string, more ...string) []string {
		return append([]string{"SINGULARITY_SLURM_WARDEN=" + options}, more...)
	}
	for _, k := range []struct {
		name   string
		args   []string
		env    []string
		want   syscall.WaitStatus
		stderr string // its beginning
	}{
		{"no program", []string{"--name=a", "--"}, nil, ours, "singularity: there is no program to start\n"},
		{"bad name", []string{"--name=a/b", "true"}, nil, ours, "singularity: --name=a/b: want 1 to 47 of [A-Za-z0-9._+-]\n"},
		{"long name", []string{"--name=" + strings.Repeat("x", 48), "true"}, nil, ours, "singularity: --name=x"},
		{"bad descriptor", []string{"--proc-fd=1x", "true"}, nil, ours, "singularity: --proc-fd=1x: want the number of a descriptor\n"},
		{"shortened", []string{"--rest"}, nil, ours, `singularity: option "--rest" is not known`},
		{"a value too many", []string{"--all=yes", "true"}, nil, ours, `singularity: option "--all=yes" is not known`},
		{"one dash", []string{"-x", "true"}, nil, ours, `singularity: option "-x" is not known`},

		{"by environment: the command line has none", []string{"--name=a/b"}, byEnv("--all"), ours, "singularity: there is no program to start\n"},
		{"by environment: two spaces", nil, byEnv("--all  --restore"), ours, `singularity: option "" is not known`},
		{"by environment: a space at the end", nil, byEnv("--restore "), ours, `singularity: option "" is not known`},
		{"by environment: nothing", nil, byEnv(""), ours, `singularity: option "" is not known`},
		{"by environment: a program", nil, byEnv("--all true", "SINGULARITY_SLURM_ARGV0=true"), ours, `singularity: option "true" is not known`},
		{"by environment: no program", nil, byEnv("--all"), ours, "singularity: there is no program to start\n"},
	} {
		t.Run(k.name, func(t *testing.T) {
			_, stderr, status := task{argv: append([]string{tools.warden}, k.args...), env: k.env}.runTask(t)
			if status != k.want || !strings.HasPrefix(stderr, k.stderr) || k.stderr == "" && stderr != "" {
				t.Errorf("status %#x, stderr %q; want %#x, %q", int(status), stderr, int(k.want), k.stderr)
			}
		})
	}
}

// TestWardenByEnvironment: with Slurm before 23.11 a plugin can replace argv[0] only.
func TestWardenByEnvironment(t *testing.T) {
	c := newCapsule(t)
	k := task{c: c, env: []string{
		"PATH=/usr/bin:/bin", "A=b",
		"SINGULARITY_SLURM_WARDEN=--name=s3.1 --proc-fd=700 --all", "SINGULARITY_SLURM_ARGV0=bash",
	}}
	script := `echo "$0 $*"; env | grep -c SINGULARITY; echo "$A"; read -r line; exit 4`
	k.bare = true
	k.argv = []string{"-c", script, "x", "", "y z"}
	r := k.startTask(t)
	r.out.expectLine("x  y z")
	r.out.expectLine("0")
	r.out.expectLine("b")
	programNamed(t, c, "s3.1")
	r.in.Close()
	if status := r.waitForEnd(); status != 4<<8 {
		t.Errorf("status of the task = %#x, want exit code 4", int(status))
	}
	// Without the options, the warden ignores the other variable, which stays in the program's environment.
	out, _, _ := task{c: c, env: []string{"PATH=/usr/bin:/bin", "SINGULARITY_SLURM_ARGV0=bash"}, argv: shellCommand("echo $SINGULARITY_SLURM_ARGV0")}.runTask(t)
	if out != "bash\n" {
		t.Errorf("the program's variable = %q, want bash", out)
	}
}
