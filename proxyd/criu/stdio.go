// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// StdioOf names descriptors as Program.Stdio has them; nil is "".
func StdioOf(files [3]*os.File) ([3]string, error) {
	var names [3]string
	for i, f := range files {
		if f == nil {
			continue
		}
		raw, err := f.SyscallConn()
		if err != nil {
			return names, err
		}
		if e := raw.Control(func(fd uintptr) { names[i], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }); e != nil || err != nil {
			return names, errors.Join(e, err)
		}
	}
	return names, nil
}

// externalSockets are the sockets of stdio in the words of criu's --external. Pipes need none.
func externalSockets(stdio [3]string) []string {
	var all []string
	for _, name := range stdio {
		number, ok := strings.CutPrefix(name, "socket:[")
		if !ok {
			continue
		}
		if what := "unix[" + strings.TrimSuffix(number, "]") + "]"; !slices.Contains(all, what) {
			all = append(all, what)
		}
	}
	return all
}

// inheritOptions returns criu's options that put files in the place of what was no file of the
// program, and the files in the order of their descriptors.
func inheritOptions(was [3]string, now [3]*os.File) (args []string, files []*os.File, err error) {
	seen := map[string]bool{}
	for i, name := range was {
		if !isInherited(name) || seen[name] {
			continue
		}
		seen[name] = true
		if now[i] == nil {
			return nil, nil, fmt.Errorf("descriptor %d was %s, and nothing is given for it", i, name)
		}
		args = append(args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", firstFree+len(files), name))
		files = append(files, now[i])
	}
	return args, files, nil
}

// giveBack puts what a program had not read yet before what is in its new input. CRIU
// does not do so for a pipe that CRIU did not make.
func giveBack(old []byte, stdin *os.File) error {
	if len(old) == 0 {
		return nil
	}
	raw, err := stdin.SyscallConn()
	if err != nil {
		return err
	}
	// With flags of its own, and to be read and written. Root writes into pipes only: the kernel asks
	// there for no rights. The user may have made another file the new input.
	fd := -1
	if err := raw.Control(func(f uintptr) {
		if _, err = unix.FcntlInt(f, unix.F_GETPIPE_SZ, 0); err != nil {
			return
		}
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", f), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}); err != nil {
		return err
	}
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return os.NewSyscallError("F_GETPIPE_SZ", err)
	}
	arrived := make([]byte, size)
	n, err := unix.Read(fd, arrived)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return os.NewSyscallError("read", err)
	}
	all := append(bytes.Clone(old), arrived[:max(n, 0)]...)
	if size < len(all) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, len(all)); err != nil {
			return os.NewSyscallError("F_SETPIPE_SZ", err)
		}
	}
	for len(all) > 0 {
		n, err := unix.Write(fd, all)
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		all = all[n:]
	}
	return nil
}
