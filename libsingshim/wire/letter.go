// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The numbers of messages that are no calls of the table; see attach.h.
const (
	OpLong   = 1
	OpMissed = 2 // Args is a text
	OpExit   = 3 // the process ends of its own will: Finish is due, and not Close

	opOurs = 16 // operations below are not the table's
)

const (
	contextSize = 8
	longSize    = 40
	countKind   = 62
	countPeer   = 40
)

// LongestLetter and LongestAnswer are the limits of pack.h.
const (
	LongestLetter = 1 << 30
	LongestAnswer = 64 << 20
)

// A Letter is a message as the shim's transport makes it: the sender's current context, and
// arguments of any length. A Letter is valid as long as its Message, or until it is answered.
type Letter struct {
	Op      uint32 // the table's, or OpMissed or OpExit
	Context uint64 // the handle of the sender's current context, or 0
	Args    []byte
	// Posted tells that the sender does not wait for an answer. An operation that is usually posted may come as a call,
	// where the sender wants to know the result; never the reverse.
	Posted  bool
	Counted bool
	Thread  uint32

	call *Call
	far  *remoteBuffer
}

// remoteBuffer is the program's memory for a long answer.
type remoteBuffer struct {
	p             Process
	address, room uint64
}

// Open reads a message of process p. Open uses room for arguments, and returns room, perhaps longer. An error says that
// the process wrote bytes that no shim writes, or that its memory could not be read.
func Open(m *Message, p Process, room []byte) (*Letter, []byte, error) {
	if len(m.Args) < contextSize {
		return nil, room, hostileError("operation %#x with %d bytes", m.Op, len(m.Args))
	}
	l := &m.letter
	if m.Call() != nil {
		l = new(Letter) // is kept until the call is answered
	}
	*l = Letter{
		Op: m.Op, Context: binary.LittleEndian.Uint64(m.Args), Args: m.Args[contextSize:],
		Posted: m.Call() == nil, Counted: m.Counted, Thread: m.Thread, call: m.Call(),
	}
	if n := m.BulkSize(); n > 0 {
		room = slices.Grow(room[:0], len(l.Args)+n)[:len(l.Args)+n]
		m.Bulk(room[copy(room, l.Args):], 0)
		l.Args = room
	}
	if l.Op != OpLong {
		return l, room, nil
	}
	if len(l.Args) != longSize || l.Posted {
		return nil, room, hostileError("a long message of %d bytes, posted %v", len(l.Args), l.Posted)
	}
	address, length := binary.LittleEndian.Uint64(l.Args), binary.LittleEndian.Uint64(l.Args[8:])
	l.far = &remoteBuffer{p, binary.LittleEndian.Uint64(l.Args[16:]), binary.LittleEndian.Uint64(l.Args[24:])}
	l.Op = binary.LittleEndian.Uint32(l.Args[32:])
	if length > LongestLetter || l.far.room > LongestAnswer || l.Op < opOurs {
		return nil, room, hostileError("a long message of %d bytes, operation %#x, with an answer of %d", length, l.Op, l.far.room)
	}
	room, err := readAll(p, address, int(length), room)
	if err != nil {
		return nil, room, fmt.Errorf("operation %#x: %w", l.Op, err)
	}
	l.Args = room
	return l, room, nil
}

// readAll reads a process's memory into room, which grows with the bytes that are read: a process that claims a large
// length must have so much memory.
func readAll(p Process, address uint64, length int, room []byte) ([]byte, error) {
	room = room[:0]
	for len(room) < length {
		have := len(room)
		n := min(length-have, max(1<<20, have))
		room = slices.Grow(room, n)[:have+n]
		if err := p.Read(room[have:], address+uint64(have)); err != nil {
			return room, err
		}
	}
	return room, nil
}

// Room is how many bytes the answer may have.
func (l *Letter) Room() int {
	switch {
	case l.far != nil:
		return int(l.far.room)
	case l.call != nil:
		return l.call.Room()
	}
	return 0
}

// Answer answers a letter that is not Posted, from any goroutine, once, as Call.Answer does.
func (l *Letter) Answer(status int32, answer []byte) error {
	if l.far == nil {
		return l.call.Answer(status, answer)
	}
	if len(answer) > l.Room() {
		return fmt.Errorf("an answer of %d bytes where %d fit", len(answer), l.Room())
	}
	if err := l.far.p.Write(answer, l.far.address); err != nil {
		return err
	}
	return l.call.Answer(status, binary.LittleEndian.AppendUint64(nil, uint64(len(answer))))
}

// CountKind says which of a communicator's numbers a count is of.
type CountKind uint8

// The kinds.
const (
	CountCollective CountKind = iota
	CountSend
	CountRecv
)

// A Count is the meaning of a key of Ring.Counts.
type Count struct {
	Comm uint64 // the communicator's handle, without its class: the lower 40 bits
	Kind CountKind
	Peer int // of a send or a receive
}

// ParseCount takes a key apart.
func ParseCount(key uint64) Count {
	c := Count{Comm: key & (1<<countPeer - 1), Kind: CountKind(key >> countKind)}
	if c.Kind != CountCollective {
		c.Peer = int(key >> countPeer & (1<<(countKind-countPeer) - 1))
	}
	return c
}

// Key makes a key of the two parts.
func (c Count) Key() uint64 {
	return uint64(c.Kind)<<countKind | uint64(c.Peer)<<countPeer | c.Comm
}
