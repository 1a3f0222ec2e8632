// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// openSocket returns a duplicate of a descriptor of a frozen program in a cgroup. The error wraps unix.ESRCH if the
// process has ended, and is errOtherKind if the descriptor is not the socket that link names: it may be a file of a
// file system that the user serves, and to close a duplicate of that file would wait for the server.
//
// Meanwhile the descriptor cannot become another file: the process is held by its pidfd, and is frozen, because it is
// in the program's cgroup.
func openSocket(link, cgroup string, pid, fd int) (*os.File, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(process)
	if !slices.Contains(InCgroup(cgroup), pid) {
		return nil, fmt.Errorf("process %d is not of the program any more: %w", pid, unix.ESRCH)
	}
	if err := checkSocket(link, pid, fd); err != nil {
		return nil, err
	}
	got, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_getfd", err)
	}
	return os.NewFile(uintptr(got), fmt.Sprintf("descriptor %d of process %d", fd, pid)), nil
}

// checkSocket checks that a descriptor is the socket that link names. It asks no server of a file system.
func checkSocket(link string, pid, fd int) error {
	look, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("descriptor %d of process %d: %w", fd, pid, unix.ESRCH)
	}
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(look)
	f, err := mounts.Fstat(look)
	if err != nil {
		return err
	}
	if f.Kind() != unix.S_IFSOCK || fmt.Sprintf("socket:[%d]", f.Inode) != link {
		return fmt.Errorf("descriptor %d of process %d: %w", fd, pid, errOtherKind)
	}
	return nil
}
