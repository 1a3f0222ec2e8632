// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// maxConnections bounds the connections of a capsule. No client is connected beyond maxWithClients, so that the job's
// own programs can still connect to outside when strangers make many connections.
const (
	maxConnections = 1024
	maxWithClients = maxConnections / 2
)

// maxLost bounds the list of connections that were lost.
const maxLost = 100

// Relay is the relay to which connections are carried.
type Relay struct {
	Address string `json:"address"` // host and port for links
	Ticket  string `json:"ticket"`
	Clients Ports  `json:"clients,omitzero"`
}

// Forwarder has the connections of a capsule. The daemon gives the orders (orders.go).
type Forwarder struct {
	ctx context.Context
	log *slog.Logger

	rest sync.RWMutex // held shared while a connection changes, and alone between hold and go. Taken first

	mu           sync.Mutex
	frozen       bool
	wentOn       time.Time // when hold last ended
	relay        Relay
	relayChanged chan struct{} // closed when relay changes
	connections  map[string]*connection
	granted      map[ends]*grantedConnection
	lost         []LostConnection
	listeners    []syscall.RawConn
	refused      bool // the relay did not know the ticket of the last link
	clients      clients
}

// setRefused records whether the relay refused the ticket of the last link.
func (f *Forwarder) setRefused(refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = refused
}

// LostConnection is a connection that has failed, with the reason.
type LostConnection struct {
	To      string `json:"to"`
	Reason  string `json:"reason"`
	Resumed bool   `json:"resumed,omitempty"` // came from a checkpoint, and could not go on
}

func newForwarder(ctx context.Context, log *slog.Logger) *Forwarder {
	return &Forwarder{ctx: ctx, log: log, connections: map[string]*connection{}, granted: map[ends]*grantedConnection{}, relayChanged: make(chan struct{})}
}

// currentRelay returns the relay, and a channel that is closed when the relay changes.
func (f *Forwarder) currentRelay() (Relay, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.relay, f.relayChanged
}

// acceptFrom takes the connections of programs from a listener, a duplicate of which the forwarder keeps.
func (f *Forwarder) acceptFrom(listener *os.File) error {
	var own int
	var err error
	if bad := localsock.WithDescriptor(listener, func(fd int) { own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }); bad != nil {
		err = bad
	}
	if err == nil {
		err = unix.SetNonblock(own, true)
	}
	if err != nil {
		return err
	}
	l := os.NewFile(uintptr(own), "listener") // a net.Listener would accept while rest is held
	raw, err := l.SyscallConn()
	if err != nil {
		l.Close()
		return err
	}
	f.mu.Lock()
	f.listeners = append(f.listeners, raw)
	f.mu.Unlock()
	go f.acceptLoop(l, raw)
	return nil
}

// acceptLoop accepts connections until the forwarder ends, and closes the listener.
func (f *Forwarder) acceptLoop(l *os.File, raw syscall.RawConn) {
	defer context.AfterFunc(f.ctx, func() { l.Close() })()
	for {
		err := raw.Read(func(fd uintptr) bool {
			// Not between hold and go: then freezeConnections has accepted all that waited.
			f.rest.RLock()
			defer f.rest.RUnlock()
			return !f.acceptWaiting(int(fd))
		})
		if err != nil {
			if f.ctx.Err() == nil {
				f.log.Error("connections are not accepted any more", "error", err)
			}
			return
		}
		select { // too few descriptors, or too little memory
		case <-f.ctx.Done():
			return
		case <-time.After(acceptPause):
		}
	}
}

// acceptPause is the time between two tries to accept where descriptors or memory were short.
const acceptPause = 100 * time.Millisecond

// acceptWaiting accepts all connections that wait. The result is false if accept failed for another reason than that no
// connection waits. The caller holds rest.
func (f *Forwarder) acceptWaiting(listener int) bool {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return true
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			f.log.Warn("accept", "error", err)
			return false
		}
		file := os.NewFile(uintptr(fd), "connection of a program")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			f.log.Warn("accept", "error", err)
			return false
		}
		if socket, ok := conn.(*net.TCPConn); ok {
			f.acceptSocket(socket)
		}
	}
}

// acceptSocket begins to carry a program's new connection. The caller holds rest.
func (f *Forwarder) acceptSocket(socket *net.TCPConn) {
	to := socket.LocalAddr().String()
	refuse := func(why string) {
		f.log.Warn("connection refused", "to", to, "reason", why)
		_ = socket.SetLinger(0)
		socket.Close()
	}
	if a, ok := socket.LocalAddr().(*net.TCPAddr); !ok || a.IP.IsLoopback() {
		refuse("it is to the listener itself") // connections of programs to lo are not diverted
		return
	}
	s := SavedConnection{ID: rand.Text(), From: socket.RemoteAddr().String(), To: to}
	if id := f.popGrantedID(ends{s.From, s.To}); id != "" {
		s.ID, s.Opened = id, true
	}
	c, err := f.newConnection(s, socket)
	if err != nil {
		refuse(err.Error())
		return
	}
	if !f.addConnection(c, maxConnections) {
		refuse("there are too many")
	}
}

// addConnection begins to serve a connection. The result is false if there are most connections already.
func (f *Forwarder) addConnection(c *connection, most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.connections) >= most {
		return false
	}
	f.connections[c.id] = c
	go f.serveConnection(c)
	return true
}

func (f *Forwarder) serveConnection(c *connection) {
	err := c.carryBytes(f.ctx)
	f.rest.RLock() // until a checkpoint ends, it has the connection
	defer f.rest.RUnlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.connections, c.id)
	if err == nil || f.ctx.Err() != nil {
		return
	}
	f.log.Info("connection lost", "to", c.to, "reason", err)
	if !errors.Is(err, errProgramReset) {
		c.mu.Lock()
		f.lost = append(f.lost, LostConnection{To: c.to, Reason: err.Error(), Resumed: c.resumed})
		c.mu.Unlock()
		f.lost = f.lost[max(0, len(f.lost)-maxLost):]
	}
}

// allConnections returns the connections in the order of their names.
func (f *Forwarder) allConnections() []*connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*connection
	for _, id := range slices.Sorted(maps.Keys(f.connections)) {
		all = append(all, f.connections[id])
	}
	return all
}

// tcpSocket returns a connection by the socket of a file, which the caller keeps.
func tcpSocket(file *os.File) (*net.TCPConn, error) {
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return nil, errors.New("not a socket of TCP")
	}
	return socket, nil
}

// resumeSaved begins to serve connections of a checkpoint. sockets has a socket for each of them.
func (f *Forwarder) resumeSaved(all []SavedConnection, sockets []*os.File) error {
	if len(all) != len(sockets) {
		return errors.New("not as many sockets as connections")
	}
	for i, s := range all {
		socket, err := tcpSocket(sockets[i])
		if err != nil {
			return err
		}
		c, err := f.newConnection(s, socket)
		if err != nil {
			socket.Close()
			return err
		}
		c.resumed = s.Opened
		if !f.addConnection(c, maxConnections) {
			socket.Close()
			return errors.New("too many connections")
		}
	}
	return nil
}
