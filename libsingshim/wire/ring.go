// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrClosed is the error of a ring that was closed or detached.
var ErrClosed = errors.New("the ring is closed")

// ErrNotEmpty is Adopt's error for a ring in which messages wait.
var ErrNotEmpty = errors.New("the ring is not empty")

// A HostileError says why a process was dropped: its ring holds bytes that the shim never writes.
type HostileError struct{ Reason string }

func (e *HostileError) Error() string { return "the process wrote nonsense to its ring: " + e.Reason }

func hostileError(format string, args ...any) error {
	return &HostileError{fmt.Sprintf(format, args...)}
}

// Options of a ring.
type Options struct {
	// Spin is the longest time to look for the next message before sleeping, 50 µs if 0. The time
	// adapts below that; negative: never.
	Spin time.Duration
	// Counts is the number of messages that were issued before, by key: of a ring that is adopted.
	Counts map[uint64]uint64
}

// A Ring is the server's end. Its methods may be called concurrently, but for Serve.
type Ring struct {
	file *os.File
	mem  memory

	// users counts the users of the mapping; "not closed" is a user, too. At 0 the ring is
	// unmapped.
	users  atomic.Int64
	closed atomic.Bool
	finish atomic.Bool

	mu        sync.Mutex
	gates     uint64 // the bits in order that are shut
	credits   uint64 // grants, as they were last seen
	broken    error  // why the process was dropped
	backlog   []message
	next      int // the first of backlog that was not handed out
	taken     uint64
	handed    int // messages that are being handled
	counts    map[uint64]uint64
	counted   uint64 // messages that were counted
	onCounted func()
	left      uint32
	leaving   []int // lanes to settle when their messages are done
	units     []uint32
	lanes     [lanes]lane

	serving reader
}

// lane is the server's own state of a lane.
type lane struct {
	next    uint32        // the position behind the last message that was taken; under mu
	release atomic.Uint32 // and behind the last that is done: set by the reader, or by the call that is open
	open    atomic.Uint32 // the unit of a call without an answer; cleared under mu
	touched bool          // release was not published; of the reader
	leaving bool          // under mu
}

// Create makes an empty ring with open gates.
func Create(o Options) (*Ring, error) {
	f, err := makeMemory()
	if err != nil {
		return nil, err
	}
	r, err := openRing(f, o)
	if err != nil {
		return nil, err
	}
	h := r.mem.viewRingHead()
	h.magic, h.version, h.lanes, h.laneUnits, h.size = ringMagic, ringVersion, lanes, laneUnits, ringSize
	return r, nil
}

// Adopt takes over a ring that another server detached, or that a restored process brought back.
// The ring must be empty (ErrNotEmpty) and its gates stay as they are. f stays the caller's.
func Adopt(f *os.File, o Options) (*Ring, error) {
	if err := checkMemory(f); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	r, err := openRing(os.NewFile(uintptr(fd), "ring"), o)
	if err != nil {
		return nil, err
	}
	if err := r.adoptMemory(); err != nil {
		r.releaseMapping()
		return nil, err
	}
	return r, nil
}

func (r *Ring) adoptMemory() error {
	h := r.mem.viewRingHead()
	magic, version := atomic.LoadUint64(&h.magic), atomic.LoadUint32(&h.version)
	if magic != ringMagic || version != ringVersion {
		return fmt.Errorf("a ring of version %d is needed, found magic %#x, version %d", ringVersion, magic, version)
	}
	order := atomic.LoadUint64(&h.order)
	switch {
	case order&lastMask != 0:
		return ErrNotEmpty
	case order&closedBit != 0:
		return ErrClosed
	}
	r.gates = order & (callsShut | countedShut)
	r.credits = order & grantsMask / grantOne
	for i := range r.lanes {
		head := atomic.LoadUint32(&r.mem.laneAt(i).head) >> 1
		r.lanes[i].next = head
		r.lanes[i].release.Store(head)
	}
	r.left = atomic.LoadUint32(&h.left) - 1 // look for lanes that were left
	return nil
}

// openRing maps f, which is the ring's then.
func openRing(f *os.File, o Options) (*Ring, error) {
	m, err := mapMemory(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	r := &Ring{file: f, mem: m, counts: make(map[uint64]uint64)}
	for k, n := range o.Counts {
		r.counts[k] = n
	}
	r.users.Store(1)
	r.serving.longest = o.Spin
	if o.Spin == 0 {
		r.serving.longest = 50 * time.Microsecond
	}
	r.serving.spin = r.serving.longest
	return r, nil
}

// File returns the ring's memory, to be passed to the process. The File is valid until the ring
// is closed, and must not be closed by the caller.
func (r *Ring) File() *os.File { return r.file }

// enterMapping keeps the mapping until releaseMapping. False: the mapping is gone, or about to go.
func (r *Ring) enterMapping() bool {
	for {
		n := r.users.Load()
		if n <= 0 {
			return false
		}
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *Ring) releaseMapping() {
	if r.users.Add(-1) == 0 {
		// No data is lost.
		_ = r.mem.unmap()
		r.file.Close()
	}
}

// Close ends the ring for both ends: calls of the process fail from now on, also those that wait.
// Messages that were not handled are dropped; Serve returns after the message that it handles.
// Close may be called from a handler, and more than once.
func (r *Ring) Close() {
	if !r.enterMapping() {
		return
	}
	defer r.releaseMapping()
	if r.closed.Swap(true) {
		return
	}
	atomic.OrUint64(&r.mem.viewRingHead().order, closedBit)
	r.wakeAll()
	r.releaseMapping()
}

// Detach ends this end alone, and leaves the ring to Adopt, when Serve has returned. The caller has shut the gate for
// calls, and has seen that Busy is zero.
func (r *Ring) Detach() {
	if !r.enterMapping() {
		return
	}
	defer r.releaseMapping()
	if r.closed.Swap(true) {
		return
	}
	r.wakeReader()
	r.releaseMapping()
}

// Finish makes Serve return, and close the ring, when Serve has handled the messages that are there: the process has
// ended, and messages that it posted count.
func (r *Ring) Finish() {
	if !r.enterMapping() {
		return
	}
	defer r.releaseMapping()
	r.finish.Store(true)
	r.wakeReader()
}

// Exits tells whether the process has said that it ends (OpExit), in a message that is handled or
// will be.
func (r *Ring) Exits() bool {
	if !r.enterMapping() {
		return false
	}
	defer r.releaseMapping()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.takeOrder() != nil {
		return false
	}
	waiting := r.backlog[r.next-r.handed:]
	return r.finish.Load() || slices.ContainsFunc(waiting, func(m message) bool { return m.op == OpExit })
}

// wakeReader makes the reader look for work.
func (r *Ring) wakeReader() {
	atomic.AndUint64(&r.mem.viewRingHead().order, ^uint64(asleep))
	wakeWaiters(r.mem.halfOfOrder(messagesHalf), math.MaxInt32)
}

// wakeAll wakes all threads that wait, so that they see that the ring was closed.
func (r *Ring) wakeAll() {
	r.wakeReader()
	wakeWaiters(r.mem.halfOfOrder(gatesHalf), math.MaxInt32)
	wakeWaiters(&r.mem.viewRingHead().freed, math.MaxInt32)
	for i := range r.lanes {
		if unit := r.lanes[i].open.Load(); unit != 0 {
			a := r.mem.answerAt(unit)
			atomic.StoreUint32(&a.state, stateUnanswered)
			wakeWaiters(&a.state, math.MaxInt32)
		}
		head := &r.mem.laneAt(i).head
		atomic.AndUint32(head, ^uint32(waitsBit))
		wakeWaiters(head, math.MaxInt32)
	}
}

// StatusAgain is the status of a call that was interrupted before it had any effect. Only a process that AsksAgain may
// get this status.
const StatusAgain = statusAgain

// AsksAgain tells whether the process repeats a call with the status StatusAgain.
func (r *Ring) AsksAgain() bool {
	if !r.enterMapping() {
		return false
	}
	defer r.releaseMapping()
	return atomic.LoadUint32(&r.mem.viewRingHead().can)&asksAgain != 0
}

// SetPipe tells the process the inode of the pipe whose read end this server has: when that end
// is closed, the server is gone.
func (r *Ring) SetPipe(inode uint64) {
	if r.enterMapping() {
		atomic.StoreUint64(&r.mem.viewRingHead().pipe, inode)
		r.releaseMapping()
	}
}

// SetFault makes every later call of the process return code without asking, for ever.
func (r *Ring) SetFault(code uint32) {
	if r.enterMapping() {
		atomic.StoreUint32(&r.mem.viewRingHead().fault, code)
		r.releaseMapping()
	}
}
