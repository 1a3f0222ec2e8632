// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"errors"
	"log"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPeers bounds the connections of wardens, those that have not said anything yet
// included.
const maxPeers = 2 * maxPrograms

// server is init once the capsule is built. id, owner and the listeners do not change.
type server struct {
	id      string
	owner   uint32
	control *net.UnixListener
	wardens *net.UnixListener

	mu       sync.Mutex // see the package comment
	table    *table
	last     conn // newest connection
	peers    map[conn]*warden
	watchers map[*net.UnixConn]bool
}

// warden is a warden's connection.
type warden struct {
	c     *net.UnixConn
	uid   uint32
	stdio []*os.File // of one that waits for a restore
}

// serve starts what init does from now on.
func (s *server) serve(children <-chan os.Signal) {
	go s.acceptAll(s.wardens, s.admitWarden)
	go s.acceptAll(s.control, s.admitMaker)
	go func() {
		for range children {
			s.reap()
		}
	}()
}

// acceptAll admits or drops each connection. One descriptor is kept in reserve: without
// one left, who knocks could not even be turned away, and would be heard for ever.
func (s *server) acceptAll(l *net.UnixListener, admit func(*net.UnixConn)) {
	reserve, err := os.Open(os.DevNull)
	for err == nil {
		var c *net.UnixConn
		c, err = l.AcceptUnix()
		if err == nil {
			admit(c)
			continue
		}
		log.Print("accept: ", err)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			reserve.Close()
			if c, err = l.AcceptUnix(); err == nil {
				c.Close()
			}
			reserve, err = os.Open(os.DevNull)
		}
	}
	log.Fatal("accept: ", err) // an init that hears nobody is worse than none
}

// reap collects every child that has ended, under the lock: see server.mu.
func (s *server) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
		s.carryOut(s.table.reaped(pid, status))
	}
}

// carryOut does what the table wants. Nothing here waits. Caller holds s.mu.
func (s *server) carryOut(all effects) {
	for _, e := range all {
		switch e := e.(type) {
		case say:
			s.say(e)
		case kill:
			go complain("kill", func() error { return killProgram(e.pid, e.first) })
		case send:
			go complain("signal", func() error { return signalProgram(e.pid, e.sig) })
		case tell:
			s.tell(e.event)
		}
	}
}

func complain(what string, do func() error) {
	if err := do(); err != nil {
		log.Print(what, ": ", err)
	}
}

// say sends a message to a warden. One that does not take it is cut off: it could have
// room for all that is ever said to it. Caller holds s.mu.
func (s *server) say(e say) {
	w := s.peers[e.to]
	if w == nil {
		return
	}
	var fds []int
	if e.with != 0 {
		fd, err := unix.PidfdOpen(e.with, 0)
		if err != nil {
			log.Print("pidfd: ", err)
			w.c.Close()
			return
		}
		defer unix.Close(fd)
		fds = append(fds, fd)
	}
	if err := sendNow(w.c, e.what.encode(), fds...); err != nil {
		w.c.Close() // its reader tells the table
	}
}

// tell sends an event to all who watch. Caller holds s.mu.
func (s *server) tell(e Event) {
	if len(s.watchers) == 0 {
		return
	}
	b, err := json.Marshal(reply{Events: []Event{e}})
	if err != nil {
		log.Print("event: ", err)
		return
	}
	for c := range s.watchers {
		if sendNow(c, b) != nil {
			delete(s.watchers, c)
			c.Close()
		}
	}
}
