// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// watchedProcess is a process that has attached.
type watchedProcess struct {
	pid  int
	end  *os.File // a pidfd: readable when the process has ended
	exec *os.File // the read end of its pipe
	ring uint64   // the inode of its ring
}

// Memory implements peer, as all below.
func (w *watchedProcess) Memory() wire.Process { return wire.Process(w.pid) }

// Print writes into the file that is the process's output now. The descriptor is fetched each time, so that no file of
// the program is kept open.
func (w *watchedProcess) Print(fd int, text []byte) {
	pidfd, ok := driver.FileNumber(w.end)
	if !ok {
		return
	}
	out, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return // the process has no such descriptor, or may not be looked at
	}
	unix.CloseOnExec(out)
	defer unix.Close(out)
	for len(text) > 0 {
		n, err := unix.Write(out, text)
		switch err {
		case nil:
			text = text[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			// The program has set its output not to block; the program's own text would be lost as well.
			if k, err := unix.Poll([]unix.PollFd{{Fd: int32(out), Events: unix.POLLOUT}}, 1000); k <= 0 && err != unix.EINTR {
				return
			}
		default:
			return
		}
	}
}

// Close ends the watching, too.
func (w *watchedProcess) Close() {
	w.end.Close()
	w.exec.Close()
}

// Watch returns when the process is gone, with the reason, or "" after Close. The end of file of its pipe may also mean that
// the program has closed all that it does not know: the process is gone if its ring is no longer mapped.
func (w *watchedProcess) Watch() string {
	ended, exec := make(chan string, 1), make(chan bool, 1)
	go func() {
		if waitReadable(w.end) {
			ended <- "it has ended"
		} else {
			ended <- ""
		}
	}()
	go func() { exec <- waitReadable(w.exec) }()
	select {
	case why := <-ended:
		return why
	case <-exec:
	}
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.pid))
		if err == nil && !isMapped(string(maps), w.ring) {
			return "it executes another program"
		}
		select {
		case why := <-ended:
			return why
		case <-time.After(pause): // no event tells of an exec from here on
		}
	}
}

// isMapped tells whether maps, of /proc, has a memfd of that inode.
func isMapped(maps string, inode uint64) bool {
	want := fmt.Sprint(inode)
	for line := range strings.Lines(maps) {
		f := strings.Fields(line) // range, permissions, offset, device, inode, path
		if len(f) > 5 && f[4] == want && strings.HasPrefix(f[5], "/memfd:") {
			return true
		}
	}
	return false
}

// waitReadable waits until a descriptor is readable or at its end, and returns false if the descriptor was closed here.
func waitReadable(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	}) == nil
}

// Descriptor returns a descriptor of the process's.
func (w *watchedProcess) Descriptor(fd int) (*os.File, error) {
	pidfd, ok := driver.FileNumber(w.end)
	if !ok {
		return nil, os.ErrClosed
	}
	got, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d of process %d: %w", fd, w.pid, err)
	}
	unix.CloseOnExec(got)
	return os.NewFile(uintptr(got), "pinned"), nil
}
