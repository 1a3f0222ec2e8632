// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrLeft means that a process destroyed its part of the communicator, and an operation still
// needs that process.
var ErrLeft = errors.New("it left the communicator")

// message is a message, posted by the side that sends or the side that receives. Its memory is not
// touched any more once done is closed, or once the link has ended.
type message struct {
	key   key
	check uint32
	size  int
	parts [][]byte // of size bytes in all
	done  chan struct{}
	then  func() // instead of done, if not nil

	part, off int // how far the message is
}

func newMessage(k key, check uint32, parts ...[]byte) *message {
	m := &message{key: k, check: check, parts: parts, done: make(chan struct{})}
	for _, p := range parts {
		m.size += len(p)
	}
	return m
}

func (m *message) finishMessage() {
	if m.then != nil {
		m.then()
		return
	}
	close(m.done)
}

// nextBytes returns the memory where the message goes on, at most n bytes.
func (m *message) nextBytes(n int) []byte {
	for m.off == len(m.parts[m.part]) {
		m.part, m.off = m.part+1, 0
	}
	p := m.parts[m.part][m.off:]
	p = p[:min(n, len(p))]
	m.off += len(p)
	m.size -= len(p)
	return p
}

// fillBytes copies b to where the message goes on.
func (m *message) fillBytes(b []byte) {
	for len(b) > 0 {
		b = b[copy(m.nextBytes(len(b)), b):]
	}
}

// promise is a message of the other side that came before ours was posted: that there is room, or
// the bytes themselves.
type promise struct {
	check uint32
	size  int
	bytes []byte
}

// link is the connection to another process for one communicator. It never gets stuck, in whatever
// order the two sides issue their operations, because a message is sent only when its receiver has
// room for the bytes, at the place where they stay (frameReady); small messages may come earlier,
// but only a window of them; and so the reader always reads on.
type link struct {
	peer  int // the process
	conn  net.Conn
	fail  func(error)
	rooms int // how many frameReady may wait for us to send

	mu       sync.Mutex
	recvs    map[key]*message // posted here, not all there yet
	early    map[key]promise  // eager messages that are not posted here yet
	sends    map[key]*message // posted here; the other side has no room yet
	ready    map[key]promise  // the other side has room; not posted here yet
	control  []byte           // frames to write first
	bulk     []*message       // to be written, in turns
	credit   int              // eager messages that we may send
	stalled  []*message       // eager messages without credit
	taken    int              // eager messages of which the other side has not heard
	peerLeft bool             // the other side said bye
	reason   string           // why we abort, if we do
	state    linkState
	writing  bool          // a goroutine writes to conn
	spare    []byte        // the memory that control had before
	wake     chan struct{} // of the writer
}

type linkState uint8

const (
	linkOpen    linkState = iota
	linkLeaving           // write all there is, then bye
	linkAborted           // write an abort frame at once
	linkEnded             // the writer writes no more
)

func newLink(peer int, conn net.Conn, rooms int, fail func(error)) *link {
	return &link{
		peer: peer, conn: conn, fail: fail, rooms: rooms, credit: window,
		recvs: make(map[key]*message), early: make(map[key]promise),
		sends: make(map[key]*message), ready: make(map[key]promise),
		wake: make(chan struct{}, 1),
	}
}

// sendMessage posts a message. The message is done when its memory is no longer needed. An eager
// message, no longer than maxEager, is copied and done at once, unless there is no credit;
// sendMessage may write the frame itself, so a goroutine that must not wait, like a reader, sends
// no eager messages.
func (l *link) sendMessage(m *message, eager bool) {
	if m.size == 0 {
		m.finishMessage()
		return
	}
	l.mu.Lock()
	if l.peerLeft {
		l.mu.Unlock()
		l.fail(fmt.Errorf("%s: %w", m.key, ErrLeft))
		return
	}
	if eager {
		if l.credit == 0 {
			l.stalled = append(l.stalled, m)
			l.mu.Unlock()
			return
		}
		l.sendEager(m)
		l.mu.Unlock()
		m.finishMessage()
		l.flushControl()
		return
	}
	p, has := l.ready[m.key]
	if !has {
		l.sends[m.key] = m
		l.mu.Unlock()
		return
	}
	delete(l.ready, m.key)
	if err := p.fitsMessage(m); err != nil {
		l.mu.Unlock()
		l.fail(err)
		return
	}
	l.bulk = append(l.bulk, m)
	l.mu.Unlock()
	l.wakeWriter()
}

// sendEager puts m's frame into control. The caller holds mu and finishes m.
func (l *link) sendEager(m *message) {
	l.credit--
	l.control = header{frameEager, m.check, m.key, uint64(m.size)}.appendTo(l.control)
	for _, p := range m.parts {
		l.control = append(l.control, p...)
	}
}

// receiveMessage posts room for a message. The message is done when all bytes are there.
func (l *link) receiveMessage(m *message, eager bool) {
	if m.size == 0 {
		m.finishMessage()
		return
	}
	l.mu.Lock()
	p, has := l.early[m.key]
	if !has {
		l.recvs[m.key] = m
		if !eager {
			l.control = header{frameReady, m.check, m.key, uint64(m.size)}.appendTo(l.control)
		}
		left := l.peerLeft
		l.mu.Unlock()
		if left {
			l.fail(fmt.Errorf("%s: %w", m.key, ErrLeft))
			return
		}
		if !eager {
			l.wakeWriter()
		}
		return
	}
	delete(l.early, m.key)
	err := p.fitsMessage(m)
	if err == nil {
		m.fillBytes(p.bytes)
		l.countTaken()
	}
	l.mu.Unlock()
	if err != nil {
		l.fail(err)
		return
	}
	m.finishMessage()
	l.wakeWriter()
}

// countTaken counts an eager message that was taken. The caller holds mu and wakes the writer.
func (l *link) countTaken() {
	l.taken++
	if l.taken >= window/2 && !l.peerLeft {
		l.control = header{kind: frameCredit, size: uint64(l.taken)}.appendTo(l.control)
		l.taken = 0
	}
}

// fitsMessage tells whether the two sides mean the same message.
func (p promise) fitsMessage(m *message) error {
	if p.check != m.check || p.size != m.size {
		return fmt.Errorf("%s: %w: %d bytes here, %d bytes there, or not the same operation", m.key, ErrMismatch, m.size, p.size)
	}
	return nil
}

// ErrMismatch means that ranks issued operations that do not belong together.
var ErrMismatch = errors.New("ranks do not agree on the operation")

func (l *link) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// closeAfterWrites makes the writer say bye when everything is written, and close its half.
func (l *link) closeAfterWrites() {
	l.mu.Lock()
	if l.state == linkOpen {
		l.state = linkLeaving
	}
	l.mu.Unlock()
	l.wakeWriter()
}

// abortLink makes the writer tell the reason and end, within the time given.
func (l *link) abortLink(reason string, within time.Duration) {
	l.mu.Lock()
	if l.state != linkEnded {
		l.state = linkAborted
	}
	l.reason = reason[:min(len(reason), maxReason)]
	l.mu.Unlock()
	l.conn.SetDeadline(time.Now().Add(within)) //nolint:errcheck // a deadline fails only on a closed connection
	l.wakeWriter()
}
