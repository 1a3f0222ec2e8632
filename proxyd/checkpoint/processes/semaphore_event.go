// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"strings"
)

const semaphoreEventCure = "close the eventfd before a checkpoint, or use a semaphore of the C library (sem_init)"

// isSemaphoreEvent tells whether a descriptor of a process, of which the link is given, is an eventfd that counts as a
// semaphore. CRIU restores the eventfd without EFD_SEMAPHORE: a read takes the whole count, and the program's other reads
// wait for ever. Linux before 6.5 does not tell.
func isSemaphoreEvent(pid int, fd, link string) bool {
	if link != "anon_inode:[eventfd]" {
		return false
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	return err == nil && strings.Contains(string(info), "\neventfd-semaphore: 1\n")
}
