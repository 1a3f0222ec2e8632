// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// attachTime bounds the time that a process may take to send its request.
const attachTime = 10 * time.Second

// attachProgram makes a process of the program that has connected, and watches the process from then on. attachProgram
// closes conn, but not before the process has closed its end: CRIU cannot dump the process while the process's end is
// open, and our end shows whether it is.
func (s *Server) attachProgram(conn *net.UnixConn) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(attachTime)); err != nil {
		return err
	}
	// A connection on which no byte comes must not hold up the end of the server.
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.ctx.Done():
			conn.Close()
		case <-stop:
		}
	}()
	pid, end, err := readPeer(conn)
	if err != nil {
		return err
	}
	if err := s.admitProcess(conn, pid, end); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	_, _ = conn.Read(make([]byte, 1)) // the process has no more to say
	return nil
}

// admitProcess serves the request of a process, or tells the process to ask again later. end is a pidfd of
// the process and now belongs to admitProcess.
func (s *Server) admitProcess(conn *net.UnixConn, pid int, end *os.File) error {
	n, err := wire.Receive(conn)
	if err != nil {
		end.Close()
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer func() {
		if n.Exec != nil {
			n.Exec.Close()
		}
	}()
	w := &watchedProcess{pid: pid, end: end, exec: n.Exec}
	ring, err := wire.Create(wire.Options{})
	if err != nil {
		end.Close()
		return errors.Join(err, n.Refuse(unix.ENOMEM))
	}
	reaches := n.Reaches(w.Memory())
	if !reaches {
		s.cfg.Log.Warn("the memory of a process cannot be read: all that it copies goes by its ring", "pid", pid)
	}
	if w.ring, err = readInode(ring.File()); err == nil {
		err = w.publishPipe(ring)
	}
	if err == nil {
		n.Exec = nil // w closes it from here on
		_, err = s.makeProcess(ring, w, visibility{n.Visible, n.Names}, func() error { return n.Welcome(ring, reaches) })
	}
	if err != nil {
		ring.Close()
		w.Close()
		if errors.Is(err, errStopped) {
			return n.Refuse(unix.ERESTART)
		}
		return fmt.Errorf("process %d: %w", pid, err)
	}
	return nil
}

// readPeer returns the process at the other end and its pidfd. A process of another user is refused.
func readPeer(conn *net.UnixConn) (int, *os.File, error) {
	var cred *unix.Ucred
	fd, inner := -1, error(nil)
	err := localsock.WithDescriptor(conn, func(c int) {
		if cred, inner = localsock.PeerCredentialsOf(c); inner == nil {
			fd, _, inner = localsock.PeerPidfd(c, int(cred.Pid))
		}
	})
	if err = errors.Join(err, inner); err != nil {
		return 0, nil, fmt.Errorf("ask who has connected: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return 0, nil, err
	}
	end := os.NewFile(uintptr(fd), "pidfd")
	if int(cred.Uid) != os.Geteuid() {
		end.Close()
		return 0, nil, fmt.Errorf("process %d is of user %d, the device server of user %d", cred.Pid, cred.Uid, os.Geteuid())
	}
	return int(cred.Pid), end, nil
}

func readInode(f *os.File) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
