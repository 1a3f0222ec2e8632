// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// maxPeers bounds the connections of wardens, including silent connections.
const maxPeers = 2 * maxPrograms

// server is init after the capsule is built. id, owner and the listeners do not change.
type server struct {
	id      string
	owner   uint32
	cgroups string   // see Spec.Cgroups
	proc    *os.File // /proc of the maker, in which wardens have PIDs
	control *net.UnixListener
	wardens *net.UnixListener

	containers containers

	mu       sync.Mutex // see the package comment
	table    *table
	last     conn // newest connection
	peers    map[conn]*warden
	watchers map[*net.UnixConn]bool
	alone    *time.Timer // runs while a decision is pending and there is no watcher
}

// warden is a warden's connection.
type warden struct {
	c     *net.UnixConn
	uid   uint32
	stdio []*os.File // of a warden that waits for a restore
}

// startServing starts init's goroutines.
func (s *server) startServing(children <-chan os.Signal) {
	go s.acceptAll(s.wardens, s.admitWarden)
	go s.acceptAll(s.control, s.admitMaker)
	go func() {
		for range children {
			s.reapChildren()
		}
	}()
}

// acceptAll admits or drops each connection. A descriptor is kept in reserve: without a free descriptor a connection
// could not even be dropped, and accept would return an error at once, forever.
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
	log.Fatal("accept: ", err) // an init that accepts no connections is worse than no capsule
}

// reapChildren collects every child that has ended, under the lock: see server.mu.
func (s *server) reapChildren() {
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
		s.applyEffects(s.table.handleReapedChild(pid, status))
	}
}

// applyEffects carries out the table's effects. It does not wait for any of them. Caller holds s.mu.
func (s *server) applyEffects(all effects) {
	for _, e := range all {
		switch e := e.(type) {
		case say:
			s.sendToWarden(e)
		case kill:
			go logError("kill", func() error { return killProgram(e) })
		case sweep:
			go s.sweepGroup(e)
		case send:
			go logError("signal", func() error { return signalProgram(e.pid, e.sig) })
		case tell:
			s.sendEvent(e.event)
		}
	}
}

// sweepGroup removes a program's cgroup, and then the containers that no other program has. It informs the table also
// after an error, because the program's warden must be told.
func (s *server) sweepGroup(e sweep) {
	logError("cgroup of "+e.name, func() error {
		err := group(e.cgroup).clearAndRemove(context.Background())
		if err == nil && e.ended {
			err = s.containers.releaseFor(e.name)
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyEffects(s.table.handleSweptCgroup(e.name))
}

func logError(what string, do func() error) {
	if err := do(); err != nil {
		log.Print(what, ": ", err)
	}
}

// sendToWarden sends a message to a warden. sendToWarden closes the connection of a warden that
// does not read: the socket has space for all messages of a connection. Caller holds s.mu.
func (s *server) sendToWarden(e say) {
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
	if err := localsock.SendNow(w.c, e.what.encode(), fds...); err != nil {
		w.c.Close() // its reader informs the table
	}
}

// makerWithin bounds the time for which a signal is withheld without a watcher: a daemon that was
// killed, or is being upgraded, is back by then. Slurm itself waits longer before SIGKILL.
const makerWithin = 10 * time.Second

// awaitMaker gives an absent maker some time to come back and decide. Caller holds s.mu.
func (s *server) awaitMaker() {
	if s.alone != nil || len(s.watchers) > 0 || !s.table.hasUndecided() {
		return
	}
	s.alone = time.AfterFunc(makerWithin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alone = nil
		if len(s.watchers) == 0 {
			s.applyEffects(s.table.sendWithheld())
		}
	})
}

// sendEvent sends an event to all watchers. Caller holds s.mu.
func (s *server) sendEvent(e Event) {
	if len(s.watchers) == 0 {
		return
	}
	b, err := json.Marshal(reply{Events: []Event{e}})
	if err != nil {
		log.Print("event: ", err)
		return
	}
	for c := range s.watchers {
		if localsock.SendNow(c, b) != nil {
			delete(s.watchers, c)
			c.Close()
		}
	}
}
