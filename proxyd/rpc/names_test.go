// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, s := range []string{"1", "812", "812_0", "812_3", "812+1", "812_3+1", "4294967295"} {
		if err := CheckJob(s); err != nil {
			t.Errorf("CheckJob(%q): %v", s, err)
		}
		for _, name := range []string{s + "/0", "mini/" + s + "/17"} {
			if job, err := CheckpointJob(name); job != s || err != nil {
				t.Errorf("CheckpointJob of %q = %q, %v", name, job, err)
			}
		}
	}
	for _, s := range []string{"", "0", "012", "-1", "812_", "812_x", "812+", "+1", "812+1_3", "4294967296", "812/3", "812 ", "812\n", "８１２"} {
		if err := CheckJob(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckJob(%q): %v; want ErrInvalid", s, err)
		}
	}
	for _, s := range []string{"", "/", "812", "812/", "/3", "812/-1", "812/4294967296", "a/b/812/3", "../812/3", "/812/3", "812/3/"} {
		if _, err := CheckpointJob(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckpointJob(%q): %v; want ErrInvalid", s, err)
		}
	}
}

// FuzzNames: a name that passes the checks is safe in a path and as an argument of scontrol.
func FuzzNames(f *testing.F) {
	f.Add("812_3+1")
	f.Add("mini/812/3")
	f.Fuzz(func(t *testing.T, s string) {
		if CheckJob(s) == nil && strings.Trim(s, "0123456789_+") != "" {
			t.Errorf("CheckJob accepted %q", s)
		}
		if job, err := CheckpointJob(s); err == nil && (CheckJob(job) != nil || strings.ContainsAny(s, "\x00\n ")) {
			t.Errorf("CheckpointJob accepted %q as of job %q", s, job)
		}
	})
}
