// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// admitMaker checks a new connection to the control socket.
func (s *server) admitMaker(c *net.UnixConn) {
	cred, err := localsock.PeerCredentials(c)
	if err != nil || cred.Pid != 0 || cred.Uid != 0 {
		c.Close()
		return
	}
	if err := growSendBuffer(c); err != nil {
		log.Print("send buffer: ", err) // then a watcher is disconnected a little earlier
	}
	go s.answerMaker(c)
}

// answerMaker answers a request, or serves a watcher.
func (s *server) answerMaker(c *net.UnixConn) {
	watching := false
	defer func() {
		if !watching {
			c.Close()
		}
	}()
	b := make([]byte, maxPacket)
	n, files, err := localsock.Receive(c, b, maxMessageFDs)
	if err != nil {
		return
	}
	localsock.CloseAll(files)
	var ask request
	if err := json.Unmarshal(b[:n], &ask); err != nil {
		s.sendReply(c, refusalReply(err), nil)
		return
	}
	if ask.Op == opWatch {
		watching = true
		s.serveWatcher(c)
		return
	}
	if ask.Op == opContainer { // waits for the file servers of the paths that the user names
		shown, err := s.obeyContainer(ask.Container)
		got := reply{Container: shown}
		if err != nil {
			got = refusalReply(err)
		}
		s.sendReply(c, got, nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	got, fds, err := s.obeyRequest(ask)
	if err != nil {
		got = refusalReply(err)
	}
	s.sendReply(c, got, fds)
	localsock.CloseAll(fds)
}

// sendReply sends a reply. Caller may hold s.mu.
func (s *server) sendReply(c *net.UnixConn, r reply, files []*os.File) {
	b, err := json.Marshal(r)
	if err == nil {
		err = localsock.SendNow(c, b, localsock.Descriptors(files)...)
	}
	if err != nil {
		log.Print("reply: ", err)
	}
}

// serveWatcher makes c a watcher until it closes.
func (s *server) serveWatcher(c *net.UnixConn) {
	s.mu.Lock()
	if err := s.sendPresentPrograms(c); err != nil {
		c.Close()
		log.Print("watch: ", err)
	} else {
		s.watchers[c] = true
	}
	s.mu.Unlock()
	_, files, _ := localsock.Receive(c, make([]byte, 1), maxMessageFDs) // returns at the watcher's end; it sends no packets
	localsock.CloseAll(files)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, c)
	c.Close()
	s.awaitMaker()
}

// sendPresentPrograms sends a new watcher the existing programs, in as many packets as needed, at least
// one. Caller holds s.mu.
func (s *server) sendPresentPrograms(c *net.UnixConn) error {
	all := s.table.firstEvents()
	for {
		n := countFitting(all)
		b, err := json.Marshal(reply{Events: all[:n]})
		if err == nil {
			err = localsock.SendNow(c, b)
		}
		if all = all[n:]; err != nil || len(all) == 0 {
			return err
		}
	}
}

// obeyRequest carries out a request of the maker. The caller closes the files. Caller holds s.mu.
func (s *server) obeyRequest(ask request) (got reply, files []*os.File, err error) {
	var all effects
	switch ask.Op {
	case opHello:
		got.ID = s.id
	case opPrograms:
		got.Programs, got.More = pageOf(s.table.listPrograms(), ask.Name)
	case opEnded:
		got.Ended, got.More = s.table.endedAfter(ask.Name)
	case opForget:
		for _, name := range ask.Names {
			s.table.forgetStatus(name)
		}
	case opOpen:
		files, err = s.openSteward(ask.Name)
	case opStdio:
		files, err = s.openStdio(ask.Name)
	case opRestored:
		all, err = s.joinRestored(ask)
	case opMark, opUnmark:
		all, err = s.table.markCaptured(ask.Name, ask.Op == opMark)
	case opRelease:
		all, err = s.table.releaseCaptured(ask.Name, ask.Status)
	case opSignal:
		if ask.Signal < 1 || ask.Signal > maxSignal {
			return got, nil, fmt.Errorf("signal %d: %w", ask.Signal, syscall.EINVAL)
		}
		all, err = s.table.forceSignal(ask.Name, ask.Signal)
	case opInput:
		all, err = s.table.orderInput(ask.Name, ask.All)
	case opLastPID:
		got.LastPID, err = lastPID()
	case opSetPID:
		err = setLastPID(ask.LastPID)
	case opClocks:
		got.Clocks, err = capsuleClocks()
	case opQueues:
		files, err = captureQueues(ask.PID)
	default:
		err = fmt.Errorf("op %q: %w", ask.Op, syscall.ENOSYS)
	}
	s.applyEffects(all)
	return got, files, err
}

// openSteward returns a pidfd of a steward. Caller holds s.mu.
func (s *server) openSteward(name string) ([]*os.File, error) {
	e, err := s.table.findProgram(name)
	if err != nil {
		return nil, err
	}
	if e.Ended {
		return nil, &RefusedError{name, syscall.ESRCH, "has ended"}
	}
	fd, err := openPidfd(e.PID)
	if err != nil {
		return nil, err
	}
	return []*os.File{fd.f}, nil
}

// openStdio returns copies of a waiting warden's descriptors. Caller holds s.mu.
func (s *server) openStdio(name string) ([]*os.File, error) {
	e, err := s.table.findAwaited(name)
	if err != nil {
		return nil, err
	}
	return duplicateFiles(s.peers[e.warden].stdio)
}

// joinRestored checks a restored program as startProgram checks a new program. The caller holds s.mu.
func (s *server) joinRestored(ask request) (effects, error) {
	e, err := s.table.findAwaited(ask.Name)
	if err != nil {
		return nil, err
	}
	w := s.peers[e.warden]
	if err := checkSteward(ask.PID, ask.First, w.uid); err != nil {
		return nil, err
	}
	if err := s.checkGroup(e.Program, ask.PID); err != nil {
		return nil, err
	}
	all, err := s.table.joinRestored(ask.Name, ask.PID, ask.First)
	if err == nil {
		localsock.CloseAll(w.stdio)
		w.stdio = nil
	}
	return all, err
}
