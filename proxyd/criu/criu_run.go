// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// How long criu may take to end by itself when its pipes are broken. At a dump criu has tasks to put right; at a
// restore no process is worth keeping, and criu has been seen to hang.
const (
	grace        = 20 * time.Second
	restoreGrace = time.Second
)

// criuRun is a run of criu.
//
//	run          a goroutine, the caller's: a loop over criu's socket, the gate and its end
//	streams      a goroutine for each image
//	mu           err, pipes, conn. No call under mu blocks
type criuRun struct {
	images *imagesFolder
	log    logbook
	carry  func(st *stream) error // the work of a stream's goroutine
	// check is called at turnRestored, pass at the last turn, with the script's PID in the capsule. They return an error
	// if criu must not go on. Without pass there is no gate.
	check func() error
	pass  func(script int) error

	grace   time.Duration
	wake    int // an eventfd: broken was set
	conn    int // criu's connection, -1 before and after
	pidfd   int // of nsenter
	criu    int // pidfd of criu itself; -1 before the connection
	criuPID int
	// endStrays has runCriu kill the processes that criu leaves in the capsule. A criu that was killed while it probed the
	// kernel leaves a child that sleeps forever (criu/util.c, fork_and_ptrace_attach).
	endStrays bool
	nsenter   int // PID
	hear      requestParser
	pending   *stream // criu has named it and not sent its pipe yet
	passed    bool    // pass has returned nil at the gate

	streams sync.WaitGroup
	broken  chan struct{} // closed when err is set
	mu      sync.Mutex
	err     error
	pipes   map[*os.File]bool // pipes to break
}

// newCriuRun prepares a run of criu as root, or with the rights of as.
func newCriuRun(socket string, as *rights) (*criuRun, error) {
	s := &criuRun{grace: grace, wake: -1, conn: -1, pidfd: -1, criu: -1, broken: make(chan struct{}), pipes: map[*os.File]bool{}}
	var err error
	if s.images, err = newImagesFolder(socket, as); err != nil {
		return nil, err
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		s.images.closeImagesFolder()
		return nil, os.NewSyscallError("eventfd", err)
	}
	return s, nil
}

func (s *criuRun) closeRun() {
	for _, fd := range []*int{&s.wake, &s.conn, &s.pidfd, &s.criu} {
		closeFD(fd)
	}
	s.images.closeImagesFolder()
}

// cancelRun breaks off the streams and criu, for the first reason that is given. Only errNoPipe gives way to a
// later reason: it follows from criu's end, and may be noticed before the reason for that end.
func (s *criuRun) cancelRun(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		if errors.Is(s.err, errNoPipe) {
			s.err = err
		}
		return
	}
	s.err = err
	close(s.broken)
	for p := range s.pipes {
		p.Close() // wakes a goroutine that reads or writes
	}
	_, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // cannot fail: 1 is far from the maximum
}

func (s *criuRun) firstFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// adoptDescriptor makes a descriptor from criu a file that breaks when s does.
func (s *criuRun) adoptDescriptor(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		f.Close()
		return nil, os.ErrClosed
	}
	s.pipes[f] = true
	return f, nil
}

func (s *criuRun) dropFile(f *os.File) {
	s.mu.Lock()
	delete(s.pipes, f)
	s.mu.Unlock()
	f.Close()
}

// runCriu runs criu to its end. The error is the run's if the run was broken off, else criu's own: an
// *exec.ExitError.
func (s *criuRun) runCriu(ctx context.Context, c command) error {
	c.files = append(append([]*os.File{}, s.images.child...), c.files...)
	if s.pass != nil {
		c.args = gateOptions(c.args)
	}
	cmd, closing, err := c.buildCommand()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr.PidFD = &s.pidfd
	err = c.start(cmd)
	localsock.CloseAll(closing)
	if err != nil {
		return err
	}
	s.images.closeInherited()
	stop := context.AfterFunc(ctx, func() { s.cancelRun(ctx.Err()) })
	s.nsenter = cmd.Process.Pid
	s.serveCriu()
	stop()
	if s.endStrays {
		killSession(c.init, s.nsenter) // before Wait: until then no other session has this number
	}
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err != nil {
		s.cancelRun(err)
	} else if s.pass != nil && !s.passed {
		s.cancelRun(errors.New("criu has ended well, but not called the gate"))
	}
	s.streams.Wait()
	return s.firstFailure()
}

// serveCriu serves criu until criu has ended.
func (s *criuRun) serveCriu() {
	const near, ask, wake, end = 0, 1, 2, 3
	var killAt time.Time
	for {
		fds := [...]unix.PollFd{
			near: {Fd: int32(s.socketDescriptor()), Events: unix.POLLIN},
			ask:  {Fd: int32(s.images.ask), Events: unix.POLLIN},
			wake: {Fd: int32(s.wake), Events: unix.POLLIN},
			end:  {Fd: int32(s.pidfd), Events: unix.POLLIN},
		}
		timeout := -1
		if !killAt.IsZero() {
			fds[wake].Fd = -1
			timeout = max(0, int(time.Until(killAt).Milliseconds()))
		}
		n, err := unix.Poll(fds[:], timeout)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			s.cancelRun(os.NewSyscallError("poll", err))
			s.killCriu()
			return
		case n == 0:
			s.killCriu()
			killAt = time.Now().Add(s.grace) // criu is in a system call that cannot be killed: wait on
		// criu's requests come before its messages at the gate, and before its end.
		case fds[near].Revents != 0:
			s.receiveRequest()
		case fds[wake].Revents != 0:
			s.closeConnections()
			killAt = time.Now().Add(s.grace)
		case fds[ask].Revents != 0:
			s.answerGate()
		case fds[end].Revents != 0:
			s.closeConnections()
			return
		}
	}
}

func (s *criuRun) socketDescriptor() int {
	if s.conn >= 0 {
		return s.conn
	}
	return s.images.listener
}

// closeConnections closes the sockets and pipes for which criu could wait, or to which criu could write.
func (s *criuRun) closeConnections() {
	s.setConn(-1)
	closeFD(&s.images.listener)
	closeFD(&s.images.ask)
	closeFD(&s.images.answer)
	if s.pending != nil {
		close(s.pending.pipe)
		s.pending = nil
	}
	for _, fd := range s.hear.fds {
		unix.Close(fd)
	}
	s.hear.fds = nil
}

// killCriu ends criu, or the nsenter and setpriv that have not become criu yet.
func (s *criuRun) killCriu() {
	if s.criu >= 0 {
		_ = unix.PidfdSendSignal(s.criu, unix.SIGKILL, nil, 0) // criu may have ended
		return
	}
	for _, pid := range readChildren(s.nsenter) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
}

// receiveRequest takes the bytes and descriptors that arrived on the streamer socket.
func (s *criuRun) receiveRequest() {
	if s.conn < 0 {
		s.acceptConnection()
		return
	}
	buf := make([]byte, 4096)
	oob := make([]byte, unix.CmsgSpace(4*16))
	n, oobn, _, _, err := unix.Recvmsg(s.conn, buf, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err != nil:
		s.cancelRun(os.NewSyscallError("recvmsg", err))
		s.setConn(-1)
		return
	case n == 0: // criu needs no more
		s.setConn(-1)
		closeFD(&s.images.listener)
		return
	}
	fds, err := parseRights(oob[:oobn])
	s.hear.addBytes(buf[:n], fds)
	if err == nil {
		err = s.listenForCriu()
	}
	if err != nil {
		s.cancelRun(err)
	}
}

func (s *criuRun) acceptConnection() {
	conn, _, err := unix.Accept4(s.images.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return // criu has gone again
	}
	closeFD(&s.images.listener)
	s.setConn(conn)
	cred, err := localsock.PeerCredentialsOf(conn)
	if err != nil {
		return
	}
	s.criuPID = int(cred.Pid)
	if fd, err := unix.PidfdOpen(s.criuPID, 0); err == nil {
		s.criu = fd
	}
}

func (s *criuRun) listenForCriu() error {
	for {
		if s.pending == nil {
			name, ok, err := s.hear.nextName()
			if err != nil || !ok {
				return err
			}
			s.pending = s.beginStream(name)
			continue
		}
		if s.pending.refused.Load() { // no pipe follows
			s.pending = nil
			continue
		}
		fd, ok, err := s.hear.nextPipe()
		if err != nil || !ok {
			return err
		}
		s.pending.pipe <- fd
		s.pending = nil
	}
}

// answerGate answers the gate's script.
func (s *criuRun) answerGate() {
	b := make([]byte, 64)
	n, err := unix.Read(s.images.ask, b)
	if n <= 0 {
		if !errors.Is(err, unix.EINTR) {
			closeFD(&s.images.ask) // criu has ended
		}
		return
	}
	turn, pid, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
	script, err := strconv.Atoi(pid)
	switch {
	case err != nil:
	case turn == turnRestored:
		if s.check != nil {
			err = s.check()
		}
	default:
		err = s.pass(script)
		s.passed = err == nil
	}
	if err != nil {
		s.cancelRun(fmt.Errorf("the gate: %w", err))
		return
	}
	if _, err := unix.Write(s.images.answer, []byte("go\n")); err != nil {
		s.cancelRun(fmt.Errorf("the gate: %w", err))
	}
}

func parseRights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGarbled, err)
	}
	var all []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		all = append(all, fds...)
		if err != nil {
			return all, fmt.Errorf("%w: %w", errGarbled, err)
		}
	}
	return all, nil
}

// replyToCriu writes a reply to criu's connection.
func (s *criuRun) replyToCriu(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn < 0 {
		return os.ErrClosed
	}
	return os.NewSyscallError("sendto", unix.Sendto(s.conn, b, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil))
}

// setConn closes criu's connection, or sets it. Only the loop calls setConn, which so may read conn
// without the lock.
func (s *criuRun) setConn(fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeFD(&s.conn)
	s.conn = fd
}
