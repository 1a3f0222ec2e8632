// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"maps"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestEndedCaptured: a task that ended while other tasks were being frozen is not lost.
func TestEndedCaptured(t *testing.T) {
	got, err := EndedCaptured([]capsule.Program{
		{Name: "batch", Captured: true},
		{Name: "s0-1.0", Captured: true, Ended: true, Status: 0x300},
		{Name: "s0-1.1", Captured: true, Frozen: true},
		{Name: "s0-1.2", Captured: true, Ended: true, Status: syscall.WaitStatus(syscall.SIGTERM)},
		{Name: "s0-1.3", Waiting: true},
	})
	if want := map[string]syscall.WaitStatus{"s0-1.0": 0x300, "s0-1.2": syscall.WaitStatus(syscall.SIGTERM)}; err != nil || !maps.Equal(got, want) {
		t.Errorf("EndedCaptured = %v, %v; want %v", got, err, want)
	}
	if _, err := EndedCaptured([]capsule.Program{{Name: "s0-1.0", Captured: true, Ended: true, Status: syscall.WaitStatus(syscall.SIGKILL)}}); err == nil {
		t.Error("a killed task counts as ended by itself")
	}
}
