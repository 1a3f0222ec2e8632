// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// doorProcess is the daemon's side of a door; door.go draws the messages.
type doorProcess struct {
	cmd     *exec.Cmd
	control *net.UnixConn
}

// doorTime is the time that a door may take to make its socket.
const doorTime = 30 * time.Second

// openDoor starts a door, and returns when callers can connect.
func openDoor(path string) (*doorProcess, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(ends[1]), "door")
	defer theirs.Close()
	control, err := localsock.TakeConn(ends[0])
	if err != nil {
		return nil, err
	}
	p := &doorProcess{exec.Command("/proc/self/exe", DoorArg, path), control}
	p.cmd.Args[0], p.cmd.Dir = "singularity-srun-door", "/"
	p.cmd.Env = []string{"GOMAXPROCS=2"}
	p.cmd.Stderr = os.Stderr
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		control.Close()
		return nil, err
	}
	theirs.Close()
	b := make([]byte, len(sayReady))
	err = control.SetReadDeadline(time.Now().Add(doorTime))
	if err == nil {
		_, err = control.Read(b)
	}
	if err == nil {
		err = control.SetReadDeadline(time.Time{})
	}
	if err != nil || string(b) != sayReady {
		p.endDoor()
		return nil, fmt.Errorf("%s: its process does not serve it: %w", path, err)
	}
	return p, nil
}

// endDoor ends the door's process; gone is closed when the process has ended. A thread of the door that waits for a
// file system may keep the process alive; the daemon and users do not need the process then.
func (p *doorProcess) endDoor() (gone <-chan struct{}) {
	p.control.Close()
	_ = p.cmd.Process.Kill()
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(ended)
	}()
	return ended
}

// serveDoors serves srun.sock until ctx is done, and starts a new door whenever the door ends.
func (s *Server) serveDoors(ctx context.Context) {
	left := make(leftDoors, maxDoorsLeft)
	var answers sync.WaitGroup // a new door does not wait for them: some last until a checkpoint has ended
	defer answers.Wait()
	for {
		s.serveDoor(ctx, s.door, &answers)
		if gone := s.door.endDoor(); !left.addDoor(ctx, s.log, gone) {
			return
		}
		for {
			if ctx.Err() != nil {
				return
			}
			s.log.Error("the process that serves srun.sock has ended; the next is started", "socket", s.srun)
			var err error
			if s.door, err = openDoor(s.srun); err == nil {
				break
			}
			s.log.Error("cannot open srun.sock", "error", err)
			select {
			case <-time.After(doorAgain):
			case <-ctx.Done():
				return
			}
		}
	}
}

// doorAgain is the wait after a door could not be started.
const doorAgain = time.Second

// serveDoor answers a door's callers until the door has ended or ctx is done. Answers that are not complete then are
// counted in answers.
func (s *Server) serveDoor(ctx context.Context, p *doorProcess, answers *sync.WaitGroup) {
	defer context.AfterFunc(ctx, func() { p.control.Close() })()
	for {
		files, said, err := receiveFiles(p.control, 2)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("cannot receive callers of srun.sock", "error", err)
			}
			return
		}
		answers.Go(func() { s.answerCaller(ctx, files, said) })
	}
}

// maxAtOnce bounds the requests of an ordinary user that are being answered: each is a process
// until its srun runs, and a request that waits for a file system for ever counts for ever. A
// sing-srun that is turned away asks again.
const maxAtOnce = 16

// answerCaller carries out the request of a caller that the door has announced.
func (s *Server) answerCaller(ctx context.Context, files []*os.File, said []byte) {
	defer localsock.CloseAll(files)
	var of callerMessage
	if err := json.Unmarshal(said, &of); err != nil {
		s.log.Error("a caller of srun.sock is not described", "error", err)
		return
	}
	who := Peer{PID: of.PID, UID: of.UID, GID: of.GID, Groups: of.Groups, pidfd: files[0]}
	err := s.sruns.Admit(who)
	if err == nil && !s.calls.beginCall(who.UID, maxAtOnce) {
		err = errors.New("the user has too many requests under way")
	}
	if err == nil {
		err = s.answerSrun(ctx, files[1], who)
		s.calls.endCall(who.UID)
	}
	if err != nil {
		s.log.Debug("turned away", "uid", who.UID, "pid", who.PID, "error", err)
	}
}

// answerSrun answers a request of a sing-srun. talk is the conversation with the door about this
// caller.
//
// The caller has closed its connection already, so that the caller can be frozen at any moment:
// messages about an srun go into the srun's status pipe.
func (s *Server) answerSrun(ctx context.Context, talk *os.File, who Peer) error {
	c, err := localsock.ConnOf(talk)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(sayListen)); err != nil {
		return err
	}
	b := make([]byte, 8*maxPacket) // as JSON
	n, err := c.Read(b)
	if err != nil {
		return fmt.Errorf("nothing was heard: %w", err)
	}
	var p packetMessage
	if err := json.Unmarshal(b[:n], &p); err != nil {
		return err
	}
	m, err := s.decodePacket(p.Packet)
	if err != nil {
		return err
	}
	switch {
	case m.verb == verbSrun && p.Files:
		s.sruns.Srun(ctx, who, m.vals["key"], func(to *os.File) error { return requestConnection(c, to) })
		return nil
	case m.verb == verbSignal && !p.Files:
		n, err := m.readNumber("signal")
		if err == nil && (n < 1 || n > 64) {
			err = fmt.Errorf("%w: signal=%d", errMessage, n)
		}
		if err == nil {
			err = s.sruns.Signal(ctx, who, m.vals["key"], syscall.Signal(n))
		}
		return err
	case m.verb == verbRequeue && p.Files: // a pipe, which the door closes at the end of the conversation
		return s.sruns.NoteRequeue(ctx, who)
	}
	return fmt.Errorf("%w: verb %q", errMessage, m.verb)
}

// requestConnection has the door send the caller's connection.
func requestConnection(c *net.UnixConn, to *os.File) error {
	var sent error
	err := localsock.WithDescriptor(to, func(fd int) { sent = localsock.Send(c, []byte(sayGive), fd) })
	return errors.Join(err, sent)
}
