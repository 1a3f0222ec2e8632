// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"os"
	"runtime"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// The first thread must not enter the tests' namespaces: it does not end with its goroutine, and
// /proc/self is this thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case capsule.Arg:
			os.Exit(capsule.Init(os.Args[2:]))
		case nodeArg:
			nodeCommand(os.Args[2], os.Args[3], os.Args[4:])
		case poolArg:
			poolWorker(os.Args[2], os.Args[3])
		}
	}
	os.Exit(m.Run())
}
