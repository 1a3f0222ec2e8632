// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"os"

	"golang.org/x/sys/unix"
)

// FileNumber is the number of a file's descriptor, as long as the file is not closed. Unlike Fd, FileNumber does not
// make the file block.
func FileNumber(f *os.File) (int, bool) {
	fd := -1
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, false
	}
	return fd, raw.Control(func(n uintptr) { fd = int(n) }) == nil && fd >= 0
}

// Duplicate is another descriptor of a file.
func Duplicate(f *os.File) (*os.File, error) {
	fd, ok := FileNumber(f)
	if !ok {
		return nil, os.ErrClosed
	}
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), f.Name()), nil
}
