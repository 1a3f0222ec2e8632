// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
)

func TestCheckReason(t *testing.T) {
	for _, s := range []string{"", "before the holidays", "für Jörg", strings.Repeat("x", kind.MaxReason)} {
		if err := kind.CheckReason(s); err != nil {
			t.Errorf("CheckReason(%q): %v", s, err)
		}
	}
	for s, want := range map[string]string{
		"two\nlines":                          `reason: want one line without control characters, found '\n'`,
		"\x1b[2J":                             `reason: want one line without control characters, found '\x1b'`,
		"\xff":                                "reason: want text of at most 200 bytes",
		strings.Repeat("x", kind.MaxReason+1): "reason: want text of at most 200 bytes",
	} {
		if err := kind.CheckReason(s); err == nil || err.Error() != want {
			t.Errorf("CheckReason(%q): %v; want %s", s, err, want)
		}
	}
}
