// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// ErrAbsent is the error of Adopt for a process that was not saved, or has come back already.
var ErrAbsent = errors.New("no process of that number is awaited")

// Adopt takes a process back that Restore has built: pid is its number now. with are the files that the process has
// brought back, in the order of its HostMappings, and stay the caller's; without files, the server fetches them, as
// OpenHostMappings does. The process waits at the gate until Resume. Adopt may be called again for a process that was
// not found.
func (s *Server) Adopt(id uint64, pid int, with []*os.File) error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	p := s.state.awaiting[id]
	if p == nil {
		return fmt.Errorf("adopt process %d: %w", id, ErrAbsent)
	}
	if err := s.adoptProcess(p, pid, with); err != nil {
		return fmt.Errorf("adopt process %d as %d: %w", id, pid, err)
	}
	delete(s.state.awaiting, id)
	return nil
}

func (s *Server) adoptProcess(p *process, pid int, with []*os.File) (err error) {
	end, err := openPidfd(pid)
	if err != nil {
		return err
	}
	w := &watchedProcess{pid: pid, end: end}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if len(with) == 0 {
		if with, err = OpenHostMappings(pid, p.back.SavedProcess); err != nil {
			return err
		}
		defer localsock.CloseAll(with)
	}
	at, err := p.recogniseMappings(pid, with)
	if err != nil {
		return err
	}
	if w.exec, err = openPipe(pid, p.back.Pipe); err != nil {
		return err
	}
	for i, f := range with[1:] {
		if err := p.Bring(backend.Addr(p.back.HostMappings[i+1].Address), f); err != nil {
			return err
		}
	}
	w.ring = at.inode
	if w.hasEnded() { // The PID may have been reused: /proc may have described another process.
		return errors.New("it has ended")
	}
	ring, err := wire.Adopt(with[0], wire.Options{Counts: p.back.Counts})
	if err != nil {
		return err
	}
	if err := w.publishPipe(ring); err != nil {
		ring.Detach()
		return err
	}
	_ = ring.Open(wire.Counted) // the earlier server had shut the gate
	var magic [8]byte
	if err := w.Memory().Read(magic[:], at.begin); err != nil {
		s.cfg.Log.Warn("the memory of a process cannot be read: its copies are lost from now on", "pid", pid, "error", err)
	}
	p.Reattach(ring, w)
	p.back = nil
	p.heard.Store(true)
	s.serveProcess(p, w)
	return nil
}

// recogniseMappings compares the files brought with the memory that the process has mapped, and returns where its ring
// is.
func (p *process) recogniseMappings(pid int, with []*os.File) (ring mapping, err error) {
	all := p.back.HostMappings
	if len(with) != len(all) || len(all) == 0 || all[0].Kind != RingMemory {
		return ring, fmt.Errorf("it comes with %d pieces of memory, and had %d", len(with), len(all))
	}
	maps, err := readMappings(pid)
	if err != nil {
		return ring, err
	}
	for i, b := range all {
		var st unix.Stat_t
		if err := unix.Fstat(int(with[i].Fd()), &st); err != nil {
			return ring, err
		}
		m, err := b.findMapping(maps, st.Ino)
		if err != nil {
			return ring, err
		}
		if !m.isFile(&st) {
			return ring, fmt.Errorf("its %s memory at %#x is not what was brought", b.Kind, m.begin)
		}
		if i == 0 {
			ring = m
		}
	}
	return ring, nil
}

// openPidfd opens a process of this user.
func openPidfd(pid int) (*os.File, error) {
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

// openPipe opens the read end of a pipe: descriptor fd of a process is the other end. If the process has closed fd, or
// never had it, the returned file is at its end.
func openPipe(pid, fd int) (*os.File, error) {
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

// pipeDescriptor is the process's descriptor of its end of the pipe, or -1. While attaching, the process has several.
func (w *watchedProcess) pipeDescriptor() int {
	n, err := readInode(w.exec)
	if err != nil {
		return -1
	}
	want := fmt.Sprintf("pipe:[%d]", n)
	kept := -1
	for d, err := range procfs.Descriptors(w.pid) {
		if err != nil {
			return -1
		}
		to, err := d.Link()
		mode, bad := os.Lstat(d.Path()) // of the descriptor, not of its file
		if errors.Join(err, bad) == nil && to == want && mode.Mode()&0o200 != 0 {
			kept = max(kept, d.Number)
		}
	}
	return kept
}

// publishPipe writes a pipe's identity into the ring: the pipe's end tells the process that the server is gone.
func (w *watchedProcess) publishPipe(r *wire.Ring) error {
	n, err := readInode(w.exec)
	if err == nil {
		r.SetPipe(n)
	}
	return err
}

// hasEnded tells whether the process has ended, noticed or not.
func (w *watchedProcess) hasEnded() bool {
	fd, ok := driver.FileNumber(w.end)
	if !ok {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// Settled tells whether the process has its ring: until then the process may be on its way to the ring.
func (w *watchedProcess) Settled() bool {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.pid))
	return err != nil || isMapped(string(maps), w.ring)
}
