// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// TestRunningProcesses: NVML lists the processes that use a device by the job's numbers of devices, also a process that sees only some of
// the devices, and under other numbers.
func TestRunningProcesses(t *testing.T) {
	s := newServer(t, 2)
	ring, err := wire.Create(wire.Options{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := connectRing(t, ring.File(), 0)
	visible := "1"
	p, err := s.makeProcess(ring, &own{ended: make(chan string)}, visibility{visible: &visible}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c.beginContext(ctxA, 0) // the job's device 1
	for dev, want := range []uint32{0, 1} {
		h, r := p.NvmlDeviceGetHandleByIndexV2(nil, uint32(dev))
		if r != 0 {
			t.Fatalf("device %d: %d", dev, r)
		}
		n, list, r := p.NvmlDeviceGetComputeRunningProcessesV3(nil, h, 8, true)
		if n != want || len(list) != int(want) || r != 0 {
			t.Errorf("device %d: %d processes, %d listed, result %d; want %d", dev, n, len(list), r, want)
		}
	}
}
