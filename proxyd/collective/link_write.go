// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"fmt"
	"net"
)

// writeFrames sends frames until the link ends. writeFrames returns nil if the link ended as
// agreed.
func (l *link) writeFrames() error {
	for range l.wake {
		for more := true; more; {
			var err error
			if more, err = l.writeSome(); err != nil || l.hasEnded() {
				return err
			}
		}
	}
	return nil
}

func (l *link) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == linkEnded
}

// writeSome writes the waiting control frames and at most one frame of a message, and tells
// whether there were bytes to write.
func (l *link) writeSome() (bool, error) {
	l.mu.Lock()
	if l.writing { // flushControl writes, and then wakes the writer
		l.mu.Unlock()
		return false, nil
	}
	state := l.state
	if state == linkAborted {
		l.state = linkEnded
		l.mu.Unlock()
		return false, l.writeAbort()
	}
	control := l.takeControl()
	var m *message
	if len(l.bulk) > 0 {
		m, l.bulk = l.bulk[0], l.bulk[1:]
	}
	leave := state == linkLeaving && m == nil
	l.writing = len(control) > 0 || m != nil || leave
	if !l.writing {
		l.spare = control
		l.mu.Unlock()
		return false, nil
	}
	l.mu.Unlock()
	if leave {
		control = header{kind: frameBye}.appendTo(control)
	}
	var buffers net.Buffers
	if len(control) > 0 {
		buffers = append(buffers, control)
	}
	if m != nil {
		n := min(m.size, maxFrame)
		buffers = append(buffers, header{frameData, m.check, m.key, uint64(n)}.appendTo(nil))
		for n > 0 {
			b := m.nextBytes(n)
			buffers = append(buffers, b)
			n -= len(b)
		}
	}
	_, err := buffers.WriteTo(l.conn)
	l.mu.Lock()
	l.writing, l.spare = false, control
	if leave {
		l.state = linkEnded
	}
	l.mu.Unlock()
	switch {
	case err != nil && m == nil && l.peerIsGone():
		return false, nil // the peer has left, and needs no credit
	case err != nil:
		return false, fmt.Errorf("connection lost: %w", err)
	case leave:
		return false, l.closeWrite()
	}
	l.requeueOrFinish(m)
	return true, nil
}

// takeControl takes the control frames. The caller holds mu, and gives their memory to spare when
// they are written.
func (l *link) takeControl() []byte {
	control := l.control
	l.control, l.spare = l.spare[:0], nil
	return control
}

// flushControl writes control frames without the writer's help, if no other bytes are being
// written, because to wake the writer takes longer than to write. flushControl waits until the
// frames are written.
func (l *link) flushControl() {
	l.mu.Lock()
	if l.writing || len(l.bulk) > 0 || len(l.control) == 0 || l.state != linkOpen {
		l.mu.Unlock()
		l.wakeWriter()
		return
	}
	l.writing = true
	control := l.takeControl()
	l.mu.Unlock()
	_, err := l.conn.Write(control)
	l.mu.Lock()
	l.writing, l.spare = false, control
	pending := len(l.control) > 0 || len(l.bulk) > 0 || l.state != linkOpen
	l.mu.Unlock()
	if err != nil && !l.peerIsGone() {
		l.fail(fmt.Errorf("connection lost: %w", err))
	}
	if pending {
		l.wakeWriter()
	}
}

// requeueOrFinish puts a message with more bytes back in line, or finishes the message.
func (l *link) requeueOrFinish(m *message) {
	switch {
	case m == nil:
	case m.size > 0:
		l.mu.Lock()
		l.bulk = append(l.bulk, m)
		l.mu.Unlock()
	default:
		m.finishMessage()
	}
}

func (l *link) writeAbort() error {
	b := header{kind: frameAbort, size: uint64(len(l.reason))}.appendTo(nil)
	_, err := l.conn.Write(append(b, l.reason...))
	return err
}

// closeWrite tells the other side that no more bytes come; the other side's bytes are still read.
func (l *link) closeWrite() error {
	if half, can := l.conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}
