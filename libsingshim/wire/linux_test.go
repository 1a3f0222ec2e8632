// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const sigusr2 = syscall.SIGUSR2

// awaitExec returns when the process has become sleep(1).
func awaitExec(t *testing.T, pid int) {
	t.Helper()
	for since := time.Now(); time.Since(since) < patience; time.Sleep(time.Millisecond) {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(comm)) == "sleep" {
			return
		}
	}
	t.Fatal("the process never became another program")
}
