// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// InputRelay is what a warden has for the standard input of its program (slurm-spank/warden/input.c): the
// pipe from slurmstepd, and the queue, which has what the program's pipe has no room for.
//
// The warden is a process of the user, and may have anything in their places. So its files are not opened but copied,
// and nothing but pipes and a file in memory is used.
type InputRelay struct {
	from  int // -1 after the end of the input
	queue int
	over  bool // the input had ended before the program was restored, or when the queue was copied
}

// queueLink is the queue among the descriptors of a warden.
const queueLink = "/memfd:sing-input (deleted)"

// maxQueue bounds what is saved of a queue; a warden keeps no more.
const maxQueue = 64 << 20

// OpenInputRelay returns what a warden has. pipe is the program's standard input, as in Program.Stdio.
// The result is nil if the warden passes nothing on: the program's input is no pipe or at its end, or the
// warden is of an older release, or has ended.
func OpenInputRelay(warden Process, pipe string) (*InputRelay, error) {
	if warden.PID == 0 || !strings.HasPrefix(pipe, "pipe:[") {
		return nil, nil
	}
	r := &InputRelay{from: -1, queue: -1}
	err := r.copyDescriptors(warden, pipe)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = nil // the warden has ended
	}
	if err == nil && r.queue >= 0 {
		seals, err := unix.FcntlInt(uintptr(r.queue), unix.F_GET_SEALS, 0)
		r.over = err == nil && seals&unix.F_SEAL_GROW != 0
		return r, nil
	}
	r.Close()
	return nil, err
}

func (r *InputRelay) copyDescriptors(warden Process, pipe string) error {
	pidfd, err := unix.PidfdOpen(warden.PID, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	if warden.HasEnded() { // the PID may be another process's
		return unix.ESRCH
	}
	dir := fmt.Sprintf("/proc/%d/fd", warden.PID)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || !strings.HasPrefix(link, "pipe:[") && link != queueLink || link == pipe {
			continue
		}
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		fd, err := unix.PidfdGetfd(pidfd, number, 0)
		if errors.Is(err, unix.EBADF) {
			continue // closed since
		}
		if err != nil {
			return os.NewSyscallError("pidfd_getfd", err)
		}
		if !r.keepDescriptor(fd, link == queueLink) {
			unix.Close(fd)
		}
	}
	return nil
}

// keepDescriptor keeps fd if it is a part of the relay.
func (r *InputRelay) keepDescriptor(fd int, isQueue bool) bool {
	place, mode, question := &r.from, unix.O_RDONLY, unix.F_GETPIPE_SZ
	if isQueue {
		place, mode, question = &r.queue, unix.O_RDWR, unix.F_GET_SEALS // which only files in memory have
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	_, other := unix.FcntlInt(uintptr(fd), question, 0)
	if err != nil || other != nil || flags&unix.O_ACCMODE != mode || *place >= 0 {
		return false
	}
	*place = fd
	return true
}

// WaitUntilTaken returns when the warden has read everything from slurmstepd's pipe.
func (r *InputRelay) WaitUntilTaken(ctx context.Context) error {
	if r.from < 0 {
		return nil
	}
	return waitUntilEmpty(ctx, r.from)
}

// CopyQueue returns the queue alone, which stays when the warden ends. The caller closes it.
func (r *InputRelay) CopyQueue() (*InputRelay, error) {
	fd, err := unix.FcntlInt(uintptr(r.queue), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &InputRelay{from: -1, queue: fd, over: r.HasEnded()}, nil
}

// HasEnded tells whether nothing comes after what is in the queue.
func (r *InputRelay) HasEnded() bool {
	if r.from < 0 || r.over {
		return true
	}
	p := []unix.PollFd{{Fd: int32(r.from), Events: unix.POLLIN}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents == unix.POLLHUP // no writer, and nothing to read
}

// Queue returns what is in the queue, which begins at the file's offset. The warden must be idle.
func (r *InputRelay) Queue() ([]byte, error) {
	at, err := unix.Seek(r.queue, 0, io.SeekCurrent)
	if err != nil {
		return nil, os.NewSyscallError("lseek", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(r.queue, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if at < 0 || at > st.Size || st.Size-at > maxQueue {
		return nil, fmt.Errorf("the queue's file is of %d bytes, and begins at %d", st.Size, at)
	}
	b := make([]byte, st.Size-at)
	for n := 0; n < len(b); {
		got, err := unix.Pread(r.queue, b[n:], at+int64(n))
		if err == nil && got == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("read the queue: %w", err)
		}
		n += got
	}
	return b, nil
}

// Fill puts what was in the queue of another warden into this one's, which must be empty, before the warden
// is told that its program has been restored. ended is what HasEnded was.
func (r *InputRelay) Fill(b []byte, ended bool) error {
	for n := 0; n < len(b); {
		wrote, err := unix.Pwrite(r.queue, b[n:], int64(n))
		if err != nil {
			return fmt.Errorf("write the queue: %w", err)
		}
		n += wrote
	}
	if !ended {
		return nil
	}
	_, err := unix.FcntlInt(uintptr(r.queue), unix.F_ADD_SEALS, unix.F_SEAL_GROW)
	return os.NewSyscallError("F_ADD_SEALS", err)
}

// Close gives up the copies. As long as they are open, slurmstepd does not see the warden close its own.
func (r *InputRelay) Close() {
	for _, fd := range []int{r.from, r.queue} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
