// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// ErrAbsent is what Adopt says of a process that was not saved, or has come back already.
var ErrAbsent = errors.New("no process of that number is awaited")

// Adopt takes a process back that Restore has built: pid is what it is now. ring is its ring's memory, or nil: then it is fetched
// from the process, for which the kernel wants CAP_CHECKPOINT_RESTORE of the server. ring stays the caller's. The process waits at
// the gate until Resume. It may be called again for a process that was not found.
func (s *Server) Adopt(id uint64, pid int, ring *os.File) error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	p := s.state.awaiting[id]
	if p == nil {
		return fmt.Errorf("adopt process %d: %w", id, ErrAbsent)
	}
	if err := s.adopt(p, pid, ring); err != nil {
		return fmt.Errorf("adopt process %d as %d: %w", id, pid, err)
	}
	delete(s.state.awaiting, id)
	return nil
}

func (s *Server) adopt(p *process, pid int, given *os.File) (err error) {
	end, err := pidfd(pid)
	if err != nil {
		return err
	}
	w := &watched{pid: pid, end: end}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	want := uint64(0)
	if given != nil {
		if want, err = inode(given); err != nil {
			return err
		}
	}
	at, err := ringOf(pid, want)
	if err != nil {
		return err
	}
	f := given
	if f == nil {
		if f, err = os.OpenFile(fmt.Sprintf("/proc/%d/map_files/%s", pid, at.span), os.O_RDWR, 0); err != nil {
			return fmt.Errorf("fetch its ring: %w", err)
		}
		defer f.Close()
	}
	if w.ring, err = inode(f); err != nil {
		return err
	}
	if w.ring != at.inode {
		return fmt.Errorf("its ring was %d and is %d", at.inode, w.ring)
	}
	if w.exec, err = pipeOf(pid, p.back.Pipe); err != nil {
		return err
	}
	ring, err := wire.Adopt(f, wire.Options{Counts: p.back.Counts})
	if err != nil {
		return err
	}
	var magic [8]byte
	if err := w.Memory().Read(magic[:], at.address); err != nil {
		s.cfg.Log.Warn("the memory of a process cannot be read: what it copies from there on is lost", "pid", pid, "error", err)
	}
	p.ring, p.peer, p.output.to, p.back = ring, w, w, nil
	s.attend(p, w)
	return nil
}

// pidfd opens a process of this user.
func pidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open it: %w", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &st); err != nil {
		f.Close()
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() {
		f.Close()
		return nil, fmt.Errorf("it is of user %d, the device server of user %d", st.Uid, os.Geteuid())
	}
	return f, nil
}

// mapping is where a process has its ring.
type mapping struct {
	span    string // as map_files names it
	address uint64
	inode   uint64
}

// ringOf finds a process's ring: the memory with that inode, 0: any.
func ringOf(pid int, inode uint64) (mapping, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return mapping{}, err
	}
	return findRing(string(maps), inode)
}

func findRing(maps string, inode uint64) (mapping, error) {
	for line := range strings.Lines(maps) {
		f := strings.Fields(line) // range, permissions, offset, device, inode, path
		if len(f) < 6 || f[5] != "/memfd:"+wire.MemoryName || strings.Trim(f[2], "0") != "" {
			continue
		}
		begin, end, _ := strings.Cut(f[0], "-")
		a, err1 := strconv.ParseUint(begin, 16, 64)
		b, err2 := strconv.ParseUint(end, 16, 64)
		n, err3 := strconv.ParseUint(f[4], 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil || b-a != wire.MemorySize || inode != 0 && n != inode {
			continue
		}
		// map_files has no leading zeros.
		return mapping{fmt.Sprintf("%x-%x", a, b), a, n}, nil
	}
	return mapping{}, errors.New("it has no ring")
}

// pipeOf opens the read end of the pipe of which a process has the other end as fd. If it has closed that, or never had it,
// what is returned is at its end of file.
func pipeOf(pid, fd int) (*os.File, error) {
	if fd >= 0 {
		path := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
		n, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			f := os.NewFile(uintptr(n), "exec")
			var st unix.Stat_t
			if err := unix.Fstat(n, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
				return f, nil
			}
			f.Close()
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.Close()
	return r, nil
}

// pipe is the process's descriptor of its end of the pipe, or -1.
func (w *watched) pipe() int {
	n, err := inode(w.exec)
	if err != nil {
		return -1
	}
	folder := fmt.Sprintf("/proc/%d/fd", w.pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return -1
	}
	want := fmt.Sprintf("pipe:[%d]", n)
	for _, e := range entries {
		to, err := os.Readlink(folder + "/" + e.Name())
		if fd, bad := strconv.Atoi(e.Name()); err == nil && bad == nil && to == want {
			return fd
		}
	}
	return -1
}

// Settled tells whether the process has its ring: it may still be on its way to it.
func (w *watched) Settled() bool {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.pid))
	return err != nil || mapped(string(maps), w.ring)
}

// RingOf returns the ring's memory of a process, which stays the server's.
func (s *Server) RingOf(id uint64) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	if p == nil || p.ring == nil {
		return nil, fmt.Errorf("the ring of process %d: %w", id, ErrAbsent)
	}
	return p.ring.File(), nil
}
