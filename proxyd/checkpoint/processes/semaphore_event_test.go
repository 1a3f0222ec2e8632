// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestSemaphoreEvent: an eventfd with EFD_SEMAPHORE is found and named, and an eventfd without is not.
func TestSemaphoreEvent(t *testing.T) {
	count := func() int {
		found := processObstacles(t.Context(), capsule.Program{Name: "batch"}, os.Getpid(), terminals{}, ownQueues(t))
		found = slices.DeleteFunc(found, func(o Obstacle) bool { return o.Cure != semaphoreEventCure })
		return len(found)
	}
	for flags, want := range map[int]int{0: 0, unix.EFD_NONBLOCK: 0, unix.EFD_SEMAPHORE: 1} {
		fd, err := unix.Eventfd(3, flags|unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if got := count(); got != want {
			t.Errorf("flags %#x: %d obstacles, want %d", flags, got, want)
		}
		if err := unix.Close(fd); err != nil {
			t.Fatal(err)
		}
	}
}
