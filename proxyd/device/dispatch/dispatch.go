// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package dispatch decodes the messages of a shim into typed calls of a Backend, and encodes the results into
// answers. The messages, the interface and the code between the two are generated from the table of calls;
// libsingshim/shim/device/transport.h describes the bytes.
//
// The sender of a message may be broken or hostile: each length is compared with the bytes that are present
// before anything is allocated, and no message makes Serve panic. The Backend checks whether a handle exists
// and which process owns the handle: in this package a handle is a number.
package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// MaxAnswer is the longest answer, in bytes. A message that asks for more is malformed.
const MaxAnswer = 64 << 20

// PerThread is a bit of an op. Callers set the bit if their default stream is per thread.
const PerThread = 1 << 31

var (
	// ErrUnknown is returned for an op that no call has.
	ErrUnknown = errors.New("no call has this number")
	// ErrMalformed is returned for a message that no shim would send.
	ErrMalformed = errors.New("malformed message")
	// ErrAnswer is returned when the backend answered more than the message asked for. The sender is not to
	// blame.
	ErrAnswer = errors.New("the backend answered more than was asked for")
)

// Result is the error number of a call, in the numbering of the call's library; 0 is success.
type Result int32

// Call says which thread makes a call, and how. Serve's caller fills it in, apart from PerThread.
type Call struct {
	PerThread bool    // the default stream is per thread
	Process   uint64  // number of the process, given by Serve's caller
	Thread    uint32  // number of the thread, given by the process
	Context   Context // current context of the thread
	// Waits is called by the backend before the backend waits for work: Serve's caller may handle other
	// messages from then on. If Waits is nil, the caller needs no answer, so the backend does not wait.
	Waits func()
	// Into belongs to the Backend: the graph to which a captured call is added instead of being carried out.
	Into any
	// Queued belongs to the Backend: an observer of the work that the call queues, or nil.
	Queued any
	// First is the part of a kernel that is already done, if the kernel is launched again to do the rest.
	First PartialKernel
	// Again is set for a call of a restored process that is repeated to queue the same work.
	Again bool
}

// PartialKernel says how much of a kernel is done.
type PartialKernel struct {
	Blocks, Printed uint64
	Launches        string // of threads, in the backend's form
}

// Info describes an op.
type Info struct {
	Symbol    string
	Posted    bool // the caller does not wait for an answer: only a lasting failure is reported to the caller
	Counted   bool // the barrier counts the call
	PerThread bool // there is a variant for per-thread default streams
	serve     func(Backend, *Call, *decoder, *encoder) Result
}

// Look returns the description of an op. The bit PerThread in the op is ignored.
func Look(op uint32) (Info, bool) {
	info, ok := ops[op&^PerThread]
	return info, ok
}

// Ops are the ops of all calls, in no order.
func Ops() []uint32 { return slices.Collect(maps.Keys(ops)) }

// callCodec is the decoder and the encoder of a call that is served.
type callCodec struct {
	d decoder
	e encoder
}

// codecs are used again: what was decoded and encoded does not refer to them.
var codecs = sync.Pool{New: func() any { return new(callCodec) }}

// Serve decodes a message, has the backend carry the call out, and appends the answer to out. An error wraps
// ErrUnknown, ErrMalformed or ErrAnswer; out is then unchanged. After ErrUnknown and ErrMalformed the caller
// must serve the sender no more. Serve is safe for concurrent use if the backend is.
func Serve(b Backend, c Call, op uint32, in, out []byte) ([]byte, Result, error) {
	info, ok := Look(op)
	if !ok {
		return out, 0, fmt.Errorf("op %#x: %w", op, ErrUnknown)
	}
	return info.Serve(b, &c, op, in, out)
}

// Serve is the function Serve for an op with this description. Serve sets c.PerThread. The backend may keep c.
func (info *Info) Serve(b Backend, c *Call, op uint32, in, out []byte) ([]byte, Result, error) {
	c.PerThread = op&PerThread != 0
	if c.PerThread && !info.PerThread {
		return out, 0, fmt.Errorf("%s: %w: it has no variant for per-thread default streams", info.Symbol, ErrMalformed)
	}
	x := codecs.Get().(*callCodec)
	defer func() {
		*x = callCodec{}
		codecs.Put(x)
	}()
	d, e := &x.d, &x.e
	d.rest, e.out = in, out
	r := info.serve(b, c, d, e)
	switch {
	case d.err != nil:
		return out, 0, fmt.Errorf("%s: %w", info.Symbol, d.err)
	case e.err != nil:
		return out, 0, fmt.Errorf("%s: %w", info.Symbol, e.err)
	}
	return e.out, r, nil
}
