// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrAborted is returned by operations of an aborted communicator; this process or a peer made the
// abort.
var ErrAborted = errors.New("aborted")

// readFrames takes frames until the connection ends. readFrames returns nil if the other side left
// as agreed. readFrames never waits for anything but the connection.
func (l *link) readFrames() error {
	r := bufio.NewReaderSize(l.conn, 64<<10)
	for {
		var raw [headerSize]byte
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			if l.peerIsGone() {
				return nil
			}
			return fmt.Errorf("connection lost: %w", err)
		}
		h, err := parseHeader(&raw)
		if err != nil {
			return err
		}
		if l.peerIsGone() && h.kind != frameAbort {
			return fmt.Errorf("%w: frame of kind %d after the last", ErrProtocol, h.kind)
		}
		if err := l.handleFrame(r, h); err != nil {
			return err
		}
	}
}

func (l *link) peerIsGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peerLeft
}

// handleFrame carries out a frame.
func (l *link) handleFrame(r io.Reader, h header) error {
	switch h.kind {
	case frameReady:
		return l.handleReady(h)
	case frameData:
		return l.handleData(r, h)
	case frameEager:
		return l.handleEager(r, h)
	case frameCredit:
		return l.handleCredit(int(h.size))
	case frameBye:
		return l.handleBye()
	}
	why := make([]byte, h.size) // frameAbort
	if _, err := io.ReadFull(r, why); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrAborted, strings.ToValidUTF8(string(why), "?"))
}

func (l *link) handleReady(h header) error {
	p := promise{check: h.check, size: int(h.size)}
	l.mu.Lock()
	defer l.mu.Unlock()
	m, posted := l.sends[h.key]
	if !posted {
		if _, twice := l.ready[h.key]; twice || len(l.ready) >= l.rooms {
			return fmt.Errorf("%w: %s: room for it again, or for too many", ErrProtocol, h.key)
		}
		l.ready[h.key] = p
		return nil
	}
	if err := p.fitsMessage(m); err != nil {
		return err
	}
	delete(l.sends, h.key)
	l.bulk = append(l.bulk, m)
	l.wakeWriter()
	return nil
}

func (l *link) handleData(r io.Reader, h header) error {
	l.mu.Lock()
	m := l.recvs[h.key]
	l.mu.Unlock()
	if m == nil || int(h.size) > m.size || m.check != h.check {
		return fmt.Errorf("%w: %s: %d bytes that nobody has room for", ErrProtocol, h.key, h.size)
	}
	return l.readInto(r, m, int(h.size))
}

// readInto reads n bytes to where m goes on. Only the reader uses a posted message.
func (l *link) readInto(r io.Reader, m *message, n int) error {
	for n > 0 {
		b := m.nextBytes(n)
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		n -= len(b)
	}
	if m.size > 0 {
		return nil
	}
	l.mu.Lock()
	delete(l.recvs, m.key)
	l.mu.Unlock()
	m.finishMessage()
	return nil
}

func (l *link) handleEager(r io.Reader, h header) error {
	p := promise{check: h.check, size: int(h.size)}
	l.mu.Lock()
	m := l.recvs[h.key]
	_, twice := l.early[h.key]
	waiting := len(l.early)
	l.mu.Unlock()
	switch {
	case h.key.src != noRank || twice || waiting >= window:
		return fmt.Errorf("%w: %s: too early", ErrProtocol, h.key)
	case m != nil:
		if err := p.fitsMessage(m); err != nil {
			return err
		}
		l.mu.Lock()
		l.countTaken()
		l.mu.Unlock()
		l.wakeWriter()
		return l.readInto(r, m, p.size)
	}
	p.bytes = make([]byte, p.size)
	if _, err := io.ReadFull(r, p.bytes); err != nil {
		return err
	}
	l.mu.Lock()
	m = l.recvs[h.key] // the message may have been posted in the meantime
	if m == nil {
		l.early[h.key] = p
		l.mu.Unlock()
		return nil
	}
	delete(l.recvs, h.key)
	l.countTaken()
	l.mu.Unlock()
	l.wakeWriter()
	if err := p.fitsMessage(m); err != nil {
		return err
	}
	m.fillBytes(p.bytes)
	m.finishMessage()
	return nil
}

func (l *link) handleCredit(n int) error {
	l.mu.Lock()
	if l.credit+n > window {
		l.mu.Unlock()
		return fmt.Errorf("%w: credit for messages that were not sent", ErrProtocol)
	}
	l.credit += n
	var sent []*message
	for l.credit > 0 && len(l.stalled) > 0 {
		l.sendEager(l.stalled[0])
		sent = append(sent, l.stalled[0])
		l.stalled = l.stalled[1:]
	}
	l.mu.Unlock()
	l.wakeWriter()
	for _, m := range sent {
		m.finishMessage()
	}
	return nil
}

func (l *link) handleBye() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peerLeft = true
	for k := range l.recvs {
		return fmt.Errorf("%s: %w", k, ErrLeft)
	}
	for k := range l.sends {
		return fmt.Errorf("%s: %w", k, ErrLeft)
	}
	return nil
}
