// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"context"
	"io"
	"log/slog"
	"sync"
)

// unknownUser counts the connections of which the kernel does not tell the user.
const unknownUser = ^uint32(0)

// closingLimits bound the connections that are being closed.
type closingLimits struct {
	ofUser  int // threads that close connections of a user; further connections of the user wait
	all     int // threads for all users
	waiting int // connections of a user that wait
}

// usualLimits are those of a door. An ordinary user has at most maxCalls connections that count as open; connections
// that are turned away come in addition. A connection that waits takes a descriptor, and no thread.
var usualLimits = closingLimits{ofUser: 64, all: 2000, waiting: 8192}

// closer closes connections, with the descriptors in their queues. To close a connection may take for ever, and its
// thread then never ends. So threads are counted by user, and connections of other users are closed meanwhile.
type closer struct {
	limits closingLimits
	giveUp func() // called when limits.all or limits.waiting is reached: the door is to be left behind
	mu     sync.Mutex
	all    int
	of     map[uint32]*closingUser
}

// closingUser is the state of a closer for one user.
type closingUser struct {
	threads int
	waiting []closingConn
}

type closingConn struct {
	conn  io.Closer
	after func() // called when the connection is closed
}

// closeConn returns at once. The connection is closed by a thread, as soon as the limits allow one.
func (c *closer) closeConn(uid uint32, conn io.Closer, after func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[uint32]*closingUser{}
	}
	u := c.of[uid]
	if u == nil {
		u = &closingUser{}
		c.of[uid] = u
	}
	if u.threads < c.limits.ofUser && c.all < c.limits.all {
		u.threads++
		c.all++
		go c.runThread(uid, u, closingConn{conn, after})
		return
	}
	u.waiting = append(u.waiting, closingConn{conn, after})
	if c.all >= c.limits.all || len(u.waiting) > c.limits.waiting {
		c.giveUp()
	}
}

// runThread closes a connection, and then the user's waiting connections.
func (c *closer) runThread(uid uint32, u *closingUser, conn closingConn) {
	for more := true; more; {
		conn.conn.Close()
		conn.after()
		conn, more = c.nextConnection(uid, u)
	}
}

// nextConnection returns a waiting connection of the user. If no connection waits, ok is false and the
// thread ends.
func (c *closer) nextConnection(uid uint32, u *closingUser) (next closingConn, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(u.waiting) > 0 {
		next, u.waiting = u.waiting[0], u.waiting[1:]
		return next, true
	}
	c.all--
	if u.threads--; u.threads == 0 {
		delete(c.of, uid)
	}
	return next, false
}

// maxDoorsLeft bounds the doors that were left behind and have not ended: their threads wait for files of users. While
// so many are left, srun.sock is not served.
const maxDoorsLeft = 8

// leftDoors counts the doors that were left behind.
type leftDoors chan struct{}

// addDoor counts a door, until gone is closed. It waits for a place, and returns false when ctx is done before.
func (l leftDoors) addDoor(ctx context.Context, log *slog.Logger, gone <-chan struct{}) bool {
	select {
	case l <- struct{}{}:
	default:
		log.Error("srun.sock is not served until an earlier process of its ends: each waits for file systems of users that do not answer", "processes", cap(l))
		select {
		case l <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		<-gone
		<-l
	}()
	return true
}
