// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// admitWarden checks a new connection. A process of the capsule has a PID here; a warden has PID 0 here, because it is
// in a PID namespace above. No byte is read before that check.
func (s *server) admitWarden(c *net.UnixConn) {
	cred, err := localsock.PeerCredentials(c)
	if err != nil || cred.Pid != 0 || cred.Uid != s.owner && cred.Uid != 0 {
		c.Close()
		return
	}
	w := &warden{c: c, uid: cred.Uid}
	id := s.addPeer(w)
	if id == 0 {
		c.Close()
		return
	}
	go s.serveWarden(id, w)
}

// addPeer returns the number of a new connection, 0 if there are too many connections.
func (s *server) addPeer(w *warden) conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.peers) >= maxPeers {
		return 0
	}
	s.last++
	s.peers[s.last] = w
	return s.last
}

// serveWarden handles a warden's messages. An invalid message ends the connection, as does the
// warden's end; either way its program ends.
func (s *server) serveWarden(id conn, w *warden) {
	for {
		b := make([]byte, messageSize)
		n, files, err := localsock.Receive(w.c, b, maxMessageFDs)
		if err != nil {
			break
		}
		var m message
		m, err = decodeMessage(b[:n])
		if err == nil {
			err = s.obeyWarden(id, w, m, files)
		}
		if err != nil {
			localsock.CloseAll(files)
			s.refuseWarden(w, err)
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.c.Close()
	localsock.CloseAll(w.stdio)
	delete(s.peers, id)
	s.applyEffects(s.table.handleWardenHangup(id))
}

// refuseWarden tells a warden why its connection is being closed.
func (s *server) refuseWarden(w *warden, why error) {
	errno := syscall.EPROTO
	errors.As(why, &errno)
	log.Printf("warden of uid %d: %v", w.uid, why)
	if err := localsock.SendNow(w.c, message{kind: kindRefused, value: int32(errno)}.encode()); err != nil {
		log.Print("refusal: ", err)
	}
}

// obeyWarden carries out a message. On success obeyWarden keeps the files or has closed them.
func (s *server) obeyWarden(id conn, w *warden, m message, files []*os.File) error {
	want := map[uint32]int{kindStart: 2, kindRestore: 4, kindSignal: 0}[m.kind]
	if len(files) != want {
		return fmt.Errorf("%w: kind %d with %d descriptors", errMessage, m.kind, len(files))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all effects
	var err error
	switch m.kind {
	case kindStart:
		all, err = s.startProgram(id, w, m, files)
	case kindRestore:
		all, err = s.restoreProgram(id, w, m, files)
	case kindSignal:
		all = s.table.requestSignal(id, syscall.Signal(m.value))
	}
	s.applyEffects(all)
	s.awaitMaker()
	return err
}

// startProgram registers a program. On success startProgram closes the files, which are pidfds: the steward is a child
// of init, so its PID is not reused until reapChildren has told the table. Caller holds s.mu.
func (s *server) startProgram(id conn, w *warden, m message, files []*os.File) (effects, error) {
	pid, err := (&pidfd{files[0]}).pidHere()
	if err != nil {
		return nil, err
	}
	first := int(m.first)
	if err := checkSteward(pid, first, w.uid); err != nil {
		return nil, err
	}
	wardenPID, parent, err := s.identifyWarden(files[1], w.uid)
	if err != nil {
		return nil, err
	}
	if err := s.table.checkAdmitted(id, m.name, pid); err != nil {
		return nil, err
	}
	all, err := s.table.startProgram(id, Program{
		Name: m.name, PID: pid, First: first, UID: w.uid, WardenPID: wardenPID,
		Cgroup: s.makeGroup(parent, m.name, pid, first),
		Stdio:  stdioOf(fmt.Sprintf("/proc/%d/fd", first), 0, 1, 2),
	})
	if err == nil {
		localsock.CloseAll(files)
	}
	return all, err
}

// restoreProgram registers a waiting warden. On success restoreProgram keeps descriptors 0, 1 and 2
// and closes the pidfd. Caller holds s.mu.
func (s *server) restoreProgram(id conn, w *warden, m message, files []*os.File) (effects, error) {
	wardenPID, parent, err := s.identifyWarden(files[3], w.uid)
	if err != nil {
		return nil, err
	}
	if err := s.table.checkAdmitted(id, m.name, 0); err != nil {
		return nil, err
	}
	all, err := s.table.awaitRestore(id, Program{
		Name: m.name, UID: w.uid, WardenPID: wardenPID,
		Cgroup: s.makeGroup(parent, m.name),
		Stdio:  stdioOf("/proc/self/fd", localsock.Descriptors(files[:3])...),
	})
	if err == nil {
		files[3].Close()
		w.stdio = files[:3]
	}
	return all, err
}

// checkSteward returns nil if pid is an unreaped child of init and belongs to uid, and first is its child. Caller holds
// server.mu, without which the child could be reaped before the caller uses pid.
func checkSteward(pid, first int, uid uint32) error {
	for _, p := range []struct{ pid, parent int }{{pid, os.Getpid()}, {first, pid}} {
		seen, err := readStat(p.pid)
		if errors.Is(err, os.ErrNotExist) {
			err = syscall.ESRCH
		}
		if err != nil {
			return fmt.Errorf("PID %d: %w", p.pid, err)
		}
		if seen.parent != p.parent {
			return fmt.Errorf("PID %d is a child of %d, not of %d: %w", p.pid, seen.parent, p.parent, syscall.EPERM)
		}
	}
	owner, err := realUID(pid)
	if err == nil && owner != uid {
		err = fmt.Errorf("PID %d is of uid %d, not of %d: %w", pid, owner, uid, syscall.EPERM)
	}
	return err
}
