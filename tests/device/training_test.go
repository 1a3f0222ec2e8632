// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestReplacedTraining: ranks that train, as threads and as processes, have their device server saved, killed and replaced under them,
// and print the same as in an undisturbed run.
func TestReplacedTraining(t *testing.T) {
	w := soft.Need(t)
	if err := w.Command("make", "-s", "-C", "tests/workloads", "O="+w.Dir); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		args  []string
		short bool
	}{
		{"mlp", []string{"--ranks", "2", "--steps", "40"}, true},
		{"mlp", []string{"--ranks", "2", "--steps", "30", "--zero", "3"}, false},
		{"gpt", []string{"--ranks", "2", "--steps", "6"}, false},
		{"gpt", []string{"--ranks", "2", "--steps", "6", "--recompute"}, false},
		{"grid", []string{"--ranks", "4", "--steps", "16"}, true},
		{"streams", []string{"--ranks", "2", "--steps", "30"}, false},
	} {
		for _, processes := range []bool{false, true} {
			args := tc.args
			if processes {
				args = append(args, "--processes")
			}
			t.Run(fmt.Sprint(tc.name, " ", args), func(t *testing.T) {
				if testing.Short() && !tc.short {
					t.Skip("it takes a while")
				}
				path := filepath.Join(w.Dir, tc.name)
				began := time.Now()
				want := w.Run(t, soft.Program{Devices: 2, Path: path, Args: args, Limit: busyLimit})
				limit := limitOfMoves(time.Since(began))
				if want.Exit != 0 {
					t.Fatalf("undisturbed, it ends with %d\n%s\n%s", want.Exit, want.Stdout, want.Stderr)
				}
				got, n := runWhileMoved(t, w, 1, limit, path, args...)
				if got != want.Stdout {
					t.Errorf("after %d replacements it printed\n%s, not\n%s", n, got, want.Stdout)
				}
				t.Logf("%d replacements", n)
			})
		}
	}
}
