// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"fmt"
	"io"
	"os"
)

// A process chooses where the kernel looks for its arguments and environment, and how long they are (PR_SET_MM_MAP):
// any program can have gigabytes of them, at no cost for the program.
const (
	maxEnviron = 6 << 20 // the most that the kernel lets a program begin with
	maxCmdline = 4096
)

// Environ returns the beginning of a process's environment: its variables, each followed by a NUL.
func Environ(pid int) ([]byte, error) {
	return readBeginning(fmt.Sprintf("/proc/%d/environ", pid), maxEnviron)
}

// Cmdline returns the beginning of a process's arguments, each followed by a NUL. dir is the process's folder in a /proc.
func Cmdline(dir string) ([]byte, error) { return readBeginning(dir+"/cmdline", maxCmdline) }

// readBeginning returns the first bytes of a file, at most as many as most.
func readBeginning(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
