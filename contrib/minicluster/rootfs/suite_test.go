// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, s := range suites {
		got, err := Lookup(s.Name)
		if err != nil || got != s {
			t.Errorf("Lookup(%q) = %v, %v", s.Name, got, err)
		}
	}
	for name, want := range map[string]string{
		"":        `unknown suite "": known are forky (Slurm 26.05), trixie (Slurm 24.11), bookworm (Slurm 22.05)`,
		"sarge\n": `unknown suite "sarge\n": known are forky (Slurm 26.05), trixie (Slurm 24.11), bookworm (Slurm 22.05)`,
	} {
		_, err := Lookup(name)
		var unknown *UnknownSuiteError
		if !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("Lookup(%q): %v, want %s", name, err, want)
		}
	}
}
