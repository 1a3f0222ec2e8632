// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"fmt"
	"slices"
)

// Window bounds the bytes of a direction that the sender keeps because the receiver has not used them yet.
const Window = 256 << 10

// MaxData bounds the bytes of a frame of data.
const MaxData = 64 << 10

// Errors that the errors of Resume and Receive wrap.
var (
	// ErrMismatch says that the two ends of a connection are not from the same moment: bytes are missing.
	ErrMismatch = errors.New("the program went back to its checkpoint")
	// ErrProtocol says that the other end has broken the protocol.
	ErrProtocol = errors.New("not the protocol of connections through a relay")
)

// Position is how far an end of a connection is. Positions count bytes from the beginning of the
// connection; the end of a direction counts as a byte.
type Position struct {
	Received uint64 `json:"received"` // up to here, bytes have come from the other end
	Base     uint64 `json:"base"`     // from here on, this end can send its bytes again
	Limit    uint64 `json:"limit"`    // up to here, this end has bytes to send
}

// State is the state of an End, for a checkpoint.
type State struct {
	Base     uint64 `json:"base"`                // bytes that the other end has used
	Out      []byte `json:"out,omitempty"`       // the bytes from Base on
	Shut     bool   `json:"shut,omitempty"`      // no more bytes follow Out
	ShutUsed bool   `json:"shut_used,omitempty"` // the other end knows of Shut: Base is behind the end of the direction
	In       []byte `json:"in,omitempty"`        // bytes that have come and are not used yet
	Got      uint64 `json:"got"`                 // bytes that have come, with the end of the direction
	InEnd    bool   `json:"in_end,omitempty"`    // the other end sends no more
}

// End is an end of a connection: bytes to send, which are kept until the other end has used them, and bytes
// that have come and are not used yet. An End has no lock and no socket. The zero value is the end of
// a new connection.
type End struct {
	s            State
	next         uint64 // the next position to send by the present link
	acknowledged uint64 // position up to which the other end knows that bytes are used
}

// State returns a copy of the end's state.
func (e *End) State() State {
	s := e.s
	s.Out, s.In = slices.Clone(s.Out), slices.Clone(s.In)
	return s
}

// FromState returns the end of a state. Resume must be called before the end sends.
func FromState(s State) End { return End{s: s, next: s.Base} }

// Room returns how many bytes Write takes now.
func (e *End) Room() int {
	if e.s.Shut {
		return 0
	}
	return max(0, Window-len(e.s.Out))
}

// Write adds bytes to send. More bytes than Room are kept in memory, too, until the other end has room for them.
func (e *End) Write(b []byte) { e.s.Out = append(e.s.Out, b...) }

// CloseWrite says that no more bytes follow. A second call is harmless.
func (e *End) CloseWrite() { e.s.Shut = true }

// Inbox returns the bytes that have come and are not used yet, and whether no more follow. The bytes are
// valid until the next call of a method.
func (e *End) Inbox() (b []byte, ends bool) { return e.s.In, e.s.InEnd }

// Consume records that the first n bytes of Inbox are used: the other end may forget them.
func (e *End) Consume(n int) {
	if e.s.In = e.s.In[n:]; len(e.s.In) == 0 {
		e.s.In = nil // do not keep used bytes in memory
	}
}

// UsedPosition returns the position before which this end has used all bytes, so that the other end may forget them.
// The end of the direction counts as used when all bytes are.
func (e *End) UsedPosition() uint64 {
	n := e.s.Got - uint64(len(e.s.In))
	if e.s.InEnd && len(e.s.In) > 0 {
		n--
	}
	return n
}

// sendLimit returns the position behind the last byte, or end of the direction, to be sent.
func (e *End) sendLimit() uint64 {
	n := e.s.Base + uint64(len(e.s.Out))
	if e.s.Shut && !e.s.ShutUsed {
		n++
	}
	return n
}

// Done tells whether both directions have ended and all bytes are used.
func (e *End) Done() bool { return e.s.ShutUsed && e.s.InEnd && len(e.s.In) == 0 }

// Idle tells whether this end has no frame to send by the present link.
func (e *End) Idle() bool {
	return e.acknowledged >= e.UsedPosition() && (e.next >= e.sendLimit() || e.next-e.s.Base >= Window)
}

// Position returns how far the end is, for the other end's Resume.
func (e *End) Position() Position {
	return Position{Received: e.s.Got, Base: e.s.Base, Limit: e.sendLimit()}
}

// Resume begins a new link to the other end, which has told its position. An error wraps ErrMismatch: one of the two
// ends, the program's, comes from a checkpoint, and the relay's end has gone on since. Either of the two may be e.
func (e *End) Resume(other Position) error {
	switch {
	case other.Received > e.sendLimit() || e.s.Got > other.Limit:
		return fmt.Errorf("%w, but the other side had already received bytes that were sent after it", ErrMismatch)
	case other.Received < e.s.Base || e.s.Got < other.Base:
		return fmt.Errorf("%w, but after it the program had already received bytes that cannot be sent again", ErrMismatch)
	}
	e.next = other.Received
	// The other end may know less than this end has told by an earlier link, or more, if this end comes from
	// a checkpoint.
	e.acknowledged = other.Base
	return nil
}

// Pull returns the next frame to send by the present link; nil if there is no frame to send. The used position is sent
// before data, so that two ends never wait for each other.
func (e *End) Pull() *Frame {
	if used := e.UsedPosition(); e.acknowledged < used {
		e.acknowledged = used
		return &Frame{Kind: KindUsed, Used: used}
	}
	sent := e.next - e.s.Base
	// Out has more than Window only after a checkpoint, which adds the bytes that a socket had received.
	if n := uint64(min(len(e.s.Out), Window)); sent < n {
		b := e.s.Out[sent:min(n, sent+MaxData)]
		e.next += uint64(len(b))
		return &Frame{Kind: KindData, Data: slices.Clone(b)}
	}
	if e.next < e.sendLimit() && sent == uint64(len(e.s.Out)) {
		e.next++
		return &Frame{Kind: KindEnd}
	}
	return nil
}

// Receive takes a frame of the present link. An error wraps ErrProtocol.
func (e *End) Receive(f *Frame) error {
	switch f.Kind {
	case KindData:
		if e.s.InEnd || e.s.Got+uint64(len(f.Data)) > e.acknowledged+Window {
			return fmt.Errorf("%w: more bytes than may come", ErrProtocol)
		}
		e.s.In = append(e.s.In, f.Data...)
		e.s.Got += uint64(len(f.Data))
	case KindEnd:
		if e.s.InEnd {
			return fmt.Errorf("%w: a direction ends twice", ErrProtocol)
		}
		e.s.InEnd = true
		e.s.Got++
	case KindUsed:
		if f.Used < e.s.Base || f.Used > e.next {
			return fmt.Errorf("%w: %d bytes used, of %d", ErrProtocol, f.Used, e.next)
		}
		e.forgetUsed(f.Used)
	default:
		return fmt.Errorf("%w: frame of kind %d", ErrProtocol, f.Kind)
	}
	return nil
}

// forgetUsed drops the bytes that the other end has used.
func (e *End) forgetUsed(used uint64) {
	n := used - e.s.Base
	if n > uint64(len(e.s.Out)) {
		n, e.s.ShutUsed = uint64(len(e.s.Out)), true
	}
	if e.s.Out = e.s.Out[n:]; len(e.s.Out) == 0 {
		e.s.Out = nil
	}
	e.s.Base = used
}
