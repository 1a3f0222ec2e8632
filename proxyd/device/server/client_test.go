// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// client is the program's end of a ring: a thread with a single lane. wire.h has the layout of the ring.
type client struct {
	t       testing.TB
	mem     []byte
	lane    uint32
	thread  uint32
	context uint64
	tail    uint32 // position
	closed  bool
	keys    []uint64 // the keys that the next message is counted for
}

// Of wire.h.
const (
	unitSize  = 64
	laneUnits = 16384
	firstUnit = 1024
	lanesAt   = 4096
	laneSize  = 128
	orderAt   = 128
	canAt     = 260
	faultAt   = 388
	lastMask  = 0xffffff
	asleepBit = 0x1000000
	callsShut = 1 << 32
	countShut = 1 << 33
	closedBit = 1 << 34
	grantOne  = 1 << 40
	grants    = 0xffff << 40
	longLane  = firstUnit + 128*laneUnits

	// The state of a call.
	awaited       = 0
	awaitedAsleep = 1
	answered      = 2
)

// programAt is where clients map their rings, each at its own address.
const programAt = 1 << 36

// programs counts them.
var programs atomic.Uint64

// connectRing makes a client of a ring's memory, which stays the caller's.
func connectRing(t testing.TB, f *os.File, lane uint32) *client {
	t.Helper()
	// Below all mappings of servers, which are of this process, too: a ring found here is the program's.
	const size = unitSize * longLane
	var p unsafe.Pointer
	err := error(unix.EEXIST)
	for errors.Is(err, unix.EEXIST) { // Go's heap begins anywhere, since Go 1.26
		at := uintptr(programAt + programs.Add(1)*(size+1<<20)&^(1<<20-1))
		p, err = unix.MmapPtr(int(f.Fd()), 0, *(*unsafe.Pointer)(unsafe.Pointer(&at)), size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE)
	}
	if err != nil {
		t.Fatal(err)
	}
	mem := unsafe.Slice((*byte)(p), size)
	t.Cleanup(func() { unix.MunmapPtr(p, size) })
	c := &client{t: t, mem: mem, lane: lane, thread: 100 + lane}
	atomic.StoreUint32(c.wordAt(lanesAt+lane*laneSize), c.thread)
	atomic.StoreUint32(c.wordAt(canAt), 1)
	return c
}

func (c *client) wordAt(at uint32) *uint32   { return (*uint32)(unsafe.Pointer(&c.mem[at])) }
func (c *client) doubleAt(at uint32) *uint64 { return (*uint64)(unsafe.Pointer(&c.mem[at])) }

// sendMessage puts a message into the order and returns where its body is.
func (c *client) sendMessage(op uint32, call bool, args []byte, room uint32) (unit, body uint32) {
	front := uint32(32)
	if call {
		front += 16
	}
	size, keys := uint32(len(args)), c.keys
	c.keys = nil
	counts := 16 * uint32(len(keys))
	units := (front + max(counts+(size+7)&^7, room) + unitSize - 1) / unitSize
	begin := c.tail
	if begin%laneUnits+units > laneUnits {
		begin = (begin + laneUnits - 1) &^ (laneUnits - 1)
	}
	for begin+units-atomic.LoadUint32(c.wordAt(lanesAt+c.lane*laneSize+64))>>1 > laneUnits {
		if c.isClosed() {
			return 0, 0
		}
		runtime.Gosched()
	}
	c.tail = begin + units
	unit = firstUnit + c.lane*laneUnits + begin%laneUnits
	at := unit * unitSize
	flags := uint32(0)
	if call {
		flags = 1
		atomic.StoreUint32(c.wordAt(at+32), 0)
	}
	for i, v := range []uint32{0, begin, op, flags | uint32(len(keys))<<16, size, 0, room, c.thread} {
		atomic.StoreUint32(c.wordAt(at+4*uint32(i)), v)
	}
	for i, key := range keys {
		binary.LittleEndian.PutUint64(c.mem[at+front+16*uint32(i):], key)
		binary.LittleEndian.PutUint64(c.mem[at+front+16*uint32(i)+8:], 1)
	}
	copy(c.mem[at+front+counts:], args)
	order := c.doubleAt(orderAt)
	for {
		old := atomic.LoadUint64(order)
		if old&closedBit != 0 {
			return 0, 0
		}
		spend := uint64(0)
		if len(keys) > 0 && old&countShut != 0 {
			spend = grantOne
		}
		if old&callsShut != 0 || spend > 0 && old&grants == 0 {
			time.Sleep(10 * time.Microsecond) // a shim sleeps there, too
			continue
		}
		atomic.StoreUint32(c.wordAt(at), uint32(old&lastMask))
		if atomic.CompareAndSwapUint64(order, old, old&^(lastMask|asleepBit)-spend|uint64(unit)) {
			if old&asleepBit != 0 {
				_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(order)), 1, math.MaxInt32, 0, 0, 0)
			}
			return unit, at + front
		}
	}
}

func (c *client) isClosed() bool {
	c.closed = c.closed || atomic.LoadUint64(c.doubleAt(orderAt))&closedBit != 0
	return c.closed
}

// pendingFault returns the error that every call should return from now on.
func (c *client) pendingFault() uint32 { return atomic.LoadUint32(c.wordAt(faultAt)) }

// ops are the numbers of calls by their symbols.
var ops = func() map[string]uint32 {
	table, err := api.Load()
	if err != nil {
		panic(err)
	}
	out := map[string]uint32{}
	for c := range table.Calls {
		if c.Shipped() {
			out[c.Symbol] = c.Op()
		}
	}
	return out
}()

// encodeMessage encodes a call's arguments behind the context: numbers by their size, slices of bytes as arrays.
func (c *client) encodeMessage(symbol string, args []any) (uint32, []byte) {
	op, ok := ops[symbol]
	if !ok {
		c.t.Fatalf("no call is %s", symbol)
	}
	b := binary.LittleEndian.AppendUint64(nil, c.context)
	for _, a := range args {
		switch v := a.(type) {
		case []byte:
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(v))), v...)
		case string:
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(v))), v...)
		default:
			var err error
			if b, err = binary.Append(b, binary.LittleEndian, v); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return op, b
}

// post sends a message without waiting for an answer.
func (c *client) post(symbol string, args ...any) {
	op, b := c.encodeMessage(symbol, args)
	c.sendMessage(op, false, b, 0)
}

// call makes a call and returns its status and its answer; -1 if the ring was closed.
func (c *client) call(symbol string, args ...any) (int32, []byte) {
	op, b := c.encodeMessage(symbol, args)
	return c.ask(op, b)
}

func (c *client) ask(op uint32, b []byte) (int32, []byte) {
	for {
		status, answer := c.askOnce(op, b)
		if status != wire.StatusAgain {
			return status, answer
		}
	}
}

func (c *client) askOnce(op uint32, b []byte) (int32, []byte) {
	unit, body := c.sendMessage(op, true, b, 8192)
	if unit == 0 {
		return statusGone, nil
	}
	state := c.wordAt(unit*unitSize + 32)
	c.waitForAnswer(state)
	if atomic.LoadUint32(state) != answered {
		return statusGone, nil
	}
	status, n := int32(atomic.LoadUint32(c.wordAt(unit*unitSize+36))), atomic.LoadUint32(c.wordAt(unit*unitSize+40))
	return status, append([]byte(nil), c.mem[body:body+n]...)
}

// waitForAnswer returns when the state of a call is answered, or the ring is closed. Like the shim, the client looks
// for a while and then sleeps: a thread that looked all the time would take a core from the server and from other
// tests.
func (c *client) waitForAnswer(state *uint32) {
	for range 64 {
		if atomic.LoadUint32(state) >= answered {
			return
		}
		runtime.Gosched()
	}
	if !atomic.CompareAndSwapUint32(state, awaited, awaitedAsleep) {
		return
	}
	for atomic.LoadUint32(state) == awaitedAsleep && !c.isClosed() {
		second := unix.Timespec{Sec: 1}
		// FUTEX_WAIT, not private. Whatever the result is, the loop looks again.
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(state)), 0, awaitedAsleep, uintptr(unsafe.Pointer(&second)), 0, 0)
	}
}

// must makes a call that succeeds.
func (c *client) must(symbol string, args ...any) []byte {
	c.t.Helper()
	return c.want(0, symbol, args...)
}

// want makes a call that returns a result.
func (c *client) want(result int32, symbol string, args ...any) []byte {
	c.t.Helper()
	r, out := c.call(symbol, args...)
	if r != result {
		c.t.Fatalf("%s%v: %d, want %d", symbol, args, r, result)
	}
	return out
}

// callForNumber makes a call with a number of 8 bytes as its answer.
func (c *client) callForNumber(symbol string, args ...any) uint64 {
	c.t.Helper()
	b := c.must(symbol, args...)
	if len(b) != 8 {
		c.t.Fatalf("%s: an answer of %d bytes", symbol, len(b))
	}
	return binary.LittleEndian.Uint64(b)
}
