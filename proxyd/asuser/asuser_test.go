// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package asuser

import (
	"os"
	"strings"
	"testing"
)

// TestCommand: a program has the user's rights and no others, and leads a session.
func TestCommand(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIP: needs root, to be another user")
	}
	out, err := Command(t.Context(), 54321, 54322, nil, "/bin/sh", "-c", `id -u; id -g; id -G; pwd; ps -o sid= -p $$; echo $$; grep -h ^Cap /proc/self/status; printf '%s\n' "$@"`, "sh", "--reuid=0", "").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 13 {
		t.Fatalf("the command printed %q, want 13 lines", out)
	}
	for i, want := range map[int]string{0: "54321", 1: "54322", 2: "54322", 3: "/", 4: lines[5], 11: "--reuid=0", 12: ""} {
		if strings.TrimSpace(lines[i]) != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	for _, capabilities := range lines[6:9] { // inheritable, permitted, effective
		if !strings.HasSuffix(capabilities, "0000000000000000") {
			t.Errorf("capabilities of the command: %s, want none", capabilities)
		}
	}
}
