// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package dispatch turns the messages of a shim into typed calls of a Backend, and what those
// return into answers. The messages, the interface and the code between are made from the
// table of calls; libsingshim/shim/device/transport.h describes the bytes.
//
// A message is what somebody wrote who may be broken or hostile: every length is checked against what is
// there before anything is allocated, and no message makes Serve panic. Whether a handle exists, and
// whose it is, the Backend decides: here a handle is a number.
package dispatch

import (
	"errors"
	"fmt"
)

// MaxAnswer is the longest answer, in bytes. A message that asks for more is malformed.
const MaxAnswer = 64 << 20

// PerThread is set in an op by callers whose default stream is their thread's.
const PerThread = 1 << 31

var (
	// ErrUnknown is returned for an op that no call has.
	ErrUnknown = errors.New("no call has this number")
	// ErrMalformed is returned for a message that no shim would send.
	ErrMalformed = errors.New("malformed message")
	// ErrAnswer is returned when the backend answered more than it was asked for: its fault, not the caller's.
	ErrAnswer = errors.New("the backend answered more than was asked for")
)

// Result is what a call returns, in the numbering of its library; 0 is success.
type Result int32

// Call is who calls, beside the arguments. Serve's caller fills it in, apart from PerThread.
type Call struct {
	PerThread bool    // the default stream is the thread's
	Process   uint64  // as Serve's caller counts processes
	Thread    uint32  // as that process counts its threads
	Context   Context // what is current there
	// Waits is called by the backend before it waits for work: whoever calls Serve may go on with other messages. Nil:
	// nobody waits for the answer, so the backend does not wait either.
	Waits func()
	// Into is the Backend's: what a call goes into that is captured, instead of being carried out.
	Into any
	// Queued is the Backend's: what finds out which work the call queues, or nil.
	Queued any
	// First is what a kernel has done that is launched again to do the rest.
	First Partial
	// Again is set for a call of a restored process that is made again to queue the same work.
	Again bool
}

// Partial is how much of a kernel is done.
type Partial struct{ Blocks, Printed uint64 }

// Info describes an op.
type Info struct {
	Symbol    string
	Posted    bool // the caller does not wait: only a lasting failure reaches it
	Counted   bool // the barrier counts it
	PerThread bool // there is a variant for per-thread default streams
	serve     func(Backend, *Call, *decoder, *encoder) Result
}

// Look returns what is known of an op. PerThread in it does not matter.
func Look(op uint32) (Info, bool) {
	info, ok := ops[op&^PerThread]
	return info, ok
}

// Serve decodes a message, has the backend carry the call out, and appends its answer to out. An error
// wraps ErrUnknown, ErrMalformed or ErrAnswer, and means that the sender is not to be served on, the
// backend's fault apart; out is then as it was. Serve is safe for concurrent use if the backend is.
func Serve(b Backend, c Call, op uint32, in, out []byte) ([]byte, Result, error) {
	info, ok := Look(op)
	if !ok {
		return out, 0, fmt.Errorf("op %#x: %w", op, ErrUnknown)
	}
	c.PerThread = op&PerThread != 0
	if c.PerThread && !info.PerThread {
		return out, 0, fmt.Errorf("%s: %w: it has no variant for per-thread default streams", info.Symbol, ErrMalformed)
	}
	d := &decoder{rest: in}
	e := &encoder{out: out}
	r := info.serve(b, &c, d, e)
	switch {
	case d.err != nil:
		return out, 0, fmt.Errorf("%s: %w", info.Symbol, d.err)
	case e.err != nil:
		return out, 0, fmt.Errorf("%s: %w", info.Symbol, e.err)
	}
	return e.out, r, nil
}
