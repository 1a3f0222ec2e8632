// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestTextForPeople: the obstacles at the end of an error's text are left out, also where a daemon of an older release
// names each process.
func TestTextForPeople(t *testing.T) {
	ring := func(pid int64) *rpc.Obstacle {
		return &rpc.Obstacle{Program: "batch", Pid: pid, Command: "a", What: "uses io_uring", Cure: "do without"}
	}
	for _, tt := range []struct {
		name, text, want string
		obstacles        []*rpc.Obstacle
	}{
		{"one", "job 9: prepare: a (PID 7) uses io_uring: do without", "job 9: prepare: this cannot be captured:", []*rpc.Obstacle{ring(7)}},
		{"two", "job 9: prepare: a (PID 7 and 1 more) uses io_uring: do without", "job 9: prepare: this cannot be captured:", []*rpc.Obstacle{ring(7), ring(8)}},
		{"two, by an older release", "job 9: prepare: a (PID 7) uses io_uring: do without; a (PID 8) uses io_uring: do without",
			"job 9: prepare: this cannot be captured:", []*rpc.Obstacle{ring(7), ring(8)}},
		{"a sentence", "job 9: dump: process 3 is run by a debugger", "job 9: dump: this cannot be captured:", []*rpc.Obstacle{{What: "process 3 is run by a debugger"}}},
		{"none", "job 9: prepare: no", "job 9: prepare: no", nil},
		{"not in the text", "job 9: prepare: no", "job 9: prepare: no", []*rpc.Obstacle{ring(7)}},
	} {
		if got := textForPeople(&rpc.Error{Kind: rpc.ErrObstacle, Text: tt.text, Obstacles: tt.obstacles}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
