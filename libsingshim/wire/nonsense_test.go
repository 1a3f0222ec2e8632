// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// forger is a process's end without a process: a forger writes the bytes that the test chooses.
type forger struct {
	mem  memory
	tail [lanes]uint32
}

// record is a message's fields in its header.
type record struct {
	op, flags, counts, size, bulk, room uint32
}

func (f *forger) unitsOf(c record) uint32 {
	front := recordSize
	if c.flags&flagCall != 0 {
		front += answerSize
	}
	return (front + max(c.counts*countSize+(c.size+7)&^7+c.bulk, c.room) + unitSize - 1) / unitSize
}

// stageMessage writes a message to its place and returns its unit, which may be out of place if
// the message is.
func (f *forger) stageMessage(lane int, c record) uint32 {
	n := f.unitsOf(c)
	begin := f.tail[lane]
	if begin%laneUnits+n > laneUnits {
		begin = (begin + laneUnits - 1) &^ (laneUnits - 1) & positionMask
	}
	f.tail[lane] = (begin + n) & positionMask
	unit := uint32(firstUnit + lane*laneUnits + int(begin%laneUnits))
	*f.mem.recordAt(unit) = recordHead{
		position: begin, op: c.op, flagsCounts: c.flags | c.counts<<16, size: c.size, bulk: c.bulk, room: c.room, thread: 1,
	}
	return unit
}

func (f *forger) pushUnit(unit uint32) {
	word := &f.mem.viewRingHead().order
	for {
		old := atomic.LoadUint64(word)
		atomic.StoreUint32(&f.mem.recordAt(unit).prev, uint32(old&lastMask))
		if atomic.CompareAndSwapUint64(word, old, old&^uint64(lastMask)|uint64(unit)) {
			return
		}
	}
}

func (f *forger) postMessage(lane int, c record) uint32 {
	unit := f.stageMessage(lane, c)
	f.pushUnit(unit)
	return unit
}

// TestNonsense: the error for each kind of lie. Before and after the lie, messages that are true are written.
func TestNonsense(t *testing.T) {
	small := record{op: 1, size: 8}
	call := record{op: 1, flags: flagCall, size: 8, room: 8}
	for _, c := range []struct {
		name, says string
		lie        func(r *Ring, f *forger)
	}{
		{"before the lanes", "where no lane is", func(_ *Ring, f *forger) { f.mem.viewRingHead().order = 5 }},
		{"behind the lanes", "where no lane is", func(_ *Ring, f *forger) { f.mem.viewRingHead().order |= lastMask }},
		{"a link to nowhere", "where no lane is", func(_ *Ring, f *forger) {
			f.mem.recordAt(f.postMessage(0, small)).prev = lastMask
		}},
		{"a circle", "in a circle", func(_ *Ring, f *forger) {
			first := f.postMessage(0, small)
			f.mem.recordAt(first).prev = f.postMessage(1, small)
		}},
		{"its own predecessor", "in a circle", func(_ *Ring, f *forger) {
			unit := f.postMessage(0, small)
			f.mem.recordAt(unit).prev = unit
		}},
		{"twice", "where 2 is next", func(r *Ring, f *forger) {
			unit := f.postMessage(0, small)
			r.Counts()
			f.pushUnit(unit)
		}},
		{"a lane backwards", "at position 2, unit 1026, where 1 is next", func(_ *Ring, f *forger) {
			first, second := f.stageMessage(0, small), f.stageMessage(0, small)
			f.pushUnit(second)
			f.pushUnit(first)
		}},
		{"another position", "at position 16385", func(_ *Ring, f *forger) {
			f.mem.recordAt(f.postMessage(0, small)).position += laneUnits
		}},
		{"another place", "is next", func(_ *Ring, f *forger) {
			f.tail[0] += 3
			f.mem.recordAt(f.postMessage(0, small)).position = 1
		}},
		{"flags", "with flags 0x8", func(_ *Ring, f *forger) { f.postMessage(0, record{flags: 8}) }},
		{"too many counts", "1025 counts", func(_ *Ring, f *forger) { f.postMessage(0, record{counts: countsMax + 1}) }},
		{"too long arguments", "65537", func(_ *Ring, f *forger) { f.postMessage(0, record{size: sizeMax + 1}) }},
		{"long bulk", "a message with", func(_ *Ring, f *forger) {
			f.mem.recordAt(f.postMessage(0, small)).bulk = 0xfffffff8
		}},
		{"large room", "a message with", func(_ *Ring, f *forger) {
			f.mem.recordAt(f.postMessage(0, small)).room = 0xffffffff
		}},
		{"too long in all", "units", func(_ *Ring, f *forger) {
			f.mem.recordAt(f.postMessage(0, record{size: sizeMax})).bulk = recordUnits * unitSize
		}},
		{"over the lane's end", "is next", func(_ *Ring, f *forger) {
			// The last unit of the lane; the server would look for the message at the next round's first.
			f.tail[0] = laneUnits - 1
			f.mem.recordAt(f.postMessage(0, small)).size = 200
		}},
		{"more than there is room for", "than it has room", func(r *Ring, f *forger) {
			for range 3 {
				f.postMessage(0, record{bulk: (recordUnits - 8) * unitSize})
			}
			r.Counts()
		}},
		{"a message behind a call", "while a call waits", func(_ *Ring, f *forger) {
			f.postMessage(2, call)
			f.postMessage(2, small)
		}},
		{"a gate opened", "gates are 0x0", func(r *Ring, f *forger) {
			r.Shut(Calls)
			f.mem.viewRingHead().order &^= callsShut
		}},
		{"a gate shut", "gates are 0x200000000", func(_ *Ring, f *forger) { f.mem.viewRingHead().order |= countedShut }},
		{"grants of its own", "9 grants, of 4", func(r *Ring, f *forger) {
			r.Shut(Counted)
			r.Grant(4)
			f.mem.viewRingHead().order += 5 * grantOne
		}},
		{"unknown bits", "order has bits", func(_ *Ring, f *forger) { f.mem.viewRingHead().order |= 1 << 63 }},
		{"closed", "it closed the ring", func(_ *Ring, f *forger) { f.mem.viewRingHead().order |= closedBit }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Create(Options{Spin: -1})
			failOn(t, err)
			r.enterMapping() // so that the memory outlives the ring
			defer r.releaseMapping()
			f := &forger{mem: r.mem}
			handled := 0
			handle := func(*Message) { handled++ }
			f.postMessage(0, small)
			if n, err := r.handleSome(handle); n != 1 || err != nil {
				t.Fatalf("handleSome before the lie = %d, %v, want 1, nil", n, err)
			}
			f.postMessage(3, small)
			c.lie(r, f)
			r.Finish() // so that a server that has not noticed the lie ends
			err = r.Serve(handle)
			var nonsense *HostileError
			if !errors.As(err, &nonsense) || !strings.Contains(nonsense.Reason, c.says) {
				t.Fatalf("Serve: %v, want a HostileError with %q", err, c.says)
			}
			if order := atomic.LoadUint64(&f.mem.viewRingHead().order); order&closedBit == 0 {
				t.Error("the ring of a process that wrote nonsense was not closed")
			}
		})
	}
}

// TestTooManyKeys: the server remembers each key that a process counts, so the number of keys is bounded.
func TestTooManyKeys(t *testing.T) {
	r, err := Create(Options{Spin: -1})
	failOn(t, err)
	defer r.Close()
	f := &forger{mem: r.mem}
	for i := range uint64(maxKeys/countsMax + 1) {
		unit := f.stageMessage(0, record{counts: countsMax})
		for j := range uint64(countsMax) {
			*structAt[count](f.mem, unit*unitSize+recordSize+uint32(j)*countSize) = count{key: i*countsMax + j, n: 1}
		}
		f.pushUnit(unit)
		_, err = r.handleSome(func(*Message) {})
		if i < maxKeys/countsMax {
			failOn(t, err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "more than 65536 keys") {
		t.Fatal(err)
	}
	if len(r.counts) != maxKeys {
		t.Errorf("%d keys are remembered, want the limit", len(r.counts))
	}
}

// FuzzRing tells the server truths and lies in any order. The server must not crash, must end, and must report the
// first noticed lie to the end.
func FuzzRing(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 8, 1, 3, 0, 8, 8, 9, 8})
	f.Add([]byte{0, 0, 0, 4, 12, 0, 1, 0, 8, 10, 8, 14, 8})
	f.Add([]byte{1, 0, 7, 1, 1, 7, 8, 8, 5, 0, 2, 0xff, 0xff, 8, 8})
	f.Add([]byte{2, 3, 40, 2, 3, 40, 2, 3, 40, 13, 8, 11, 8, 6, 0, 1, 0, 0, 1, 8})
	f.Fuzz(func(t *testing.T, script []byte) {
		r, err := Create(Options{Spin: -1})
		failOn(t, err)
		forge := &forger{mem: r.mem}
		var open []*Call
		var last uint32 = firstUnit
		buffer := make([]byte, 4096)
		handle := func(m *Message) {
			m.Bulk(buffer, m.BulkSize()/2)
			if c := m.Call(); c != nil {
				open = append(open, c)
			}
		}
		next := func(n int) uint32 {
			var b [4]byte
			n = copy(b[:n], script)
			script = script[n:]
			return binary.LittleEndian.Uint32(b[:])
		}
		var lied error
		note := func(err error) {
			var nonsense *HostileError
			switch {
			case lied != nil && !errors.Is(err, lied):
				t.Fatalf("the ring returned %v, want the first error %v", err, lied)
			case errors.As(err, &nonsense):
				lied = err
			case err != nil:
				t.Fatal(err)
			}
		}
		for steps := 0; len(script) > 0 && steps < 500; steps++ {
			switch next(1) % 16 {
			case 0: // a post
				last = forge.postMessage(int(next(1))%lanes, record{op: 1, size: next(1), bulk: next(2)})
			case 1: // a call
				last = forge.postMessage(int(next(1))%lanes, record{op: 2, flags: flagCall, size: next(1), room: next(1)})
			case 2: // large
				last = forge.postMessage(int(next(1))%lanes, record{op: 3, bulk: next(1) * 8192})
			case 3: // counted
				unit := forge.stageMessage(int(next(1))%lanes, record{op: 4, counts: next(1) % 8, size: 8})
				atomic.StoreUint64(structAt[uint64](r.mem, unit*unitSize+recordSize), uint64(next(1)))
				forge.pushUnit(unit)
				last = unit
			case 4: // a word of the last message
				*structAt[uint32](r.mem, last*unitSize+next(1)%12*4) = next(4)
			case 5: // a word of the ring's or a lane's head
				*structAt[uint32](r.mem, []uint32{128, 132, 256, 384, 512, lanesAt, lanesAt + 4, lanesAt + 64}[next(1)%8]+next(1)%4*laneSize) = next(4)
			case 6: // any word
				*structAt[uint32](r.mem, next(4)%(ringSize-4)&^3) = next(4)
			case 7: // out of its order
				forge.pushUnit(last)
			case 8, 9:
				_, err := r.handleSome(handle)
				note(err)
			case 10: // an answer
				if len(open) > 0 {
					failOn(t, open[0].Answer(0, buffer[:min(open[0].Room(), len(buffer))]))
					open = open[1:]
				}
			case 11:
				_, err := r.Counts()
				note(err)
			case 12:
				note(r.Shut(Counted))
			case 13:
				note(r.Open(Counted))
			case 14: // a lane is left
				i := int(next(1)) % lanes
				if state := &r.mem.laneAt(i).state; atomic.SwapUint32(state, 1|leftBit)&leftBit == 0 {
					atomic.AddUint32(&r.mem.viewRingHead().left, 1)
				}
			case 15:
				_, err := r.Busy()
				note(err)
			}
		}
		r.Finish()
		if err := r.Serve(handle); lied != nil && !errors.Is(err, lied) {
			t.Fatalf("Serve returned %v, want the first error %v", err, lied)
		}
		for _, c := range open {
			if err := c.Answer(0); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		}
		if n := r.users.Load(); n != 0 {
			t.Fatalf("%d users of a closed ring", n)
		}
	})
}

// TestFinish: messages that were posted before Finish are handled, at any state of the reader: in each round Finish
// comes a moment later after a message.
func TestFinish(t *testing.T) {
	for i := range 400 {
		r, err := Create(Options{Spin: -1})
		failOn(t, err)
		r.enterMapping()
		f := &forger{mem: r.mem}
		var handled atomic.Int32
		served := make(chan error)
		go func() { served <- r.Serve(func(*Message) { handled.Add(1) }) }()
		f.postMessage(0, record{op: 1})
		for handled.Load() == 0 {
			r.wakeReader() // which the forger does not
		}
		for range i % 300 {
			handled.Load()
		}
		f.postMessage(1, record{op: 1})
		r.Finish()
		failOn(t, <-served)
		r.releaseMapping()
		if n := handled.Load(); n != 2 {
			t.Fatalf("%d messages were handled, want 2", n)
		}
	}
}

// TestExits: the end that a process announces is known before the message is handled, and afterwards, and not of a ring that was closed.
func TestExits(t *testing.T) {
	r, err := Create(Options{Spin: -1})
	failOn(t, err)
	r.enterMapping()
	f := &forger{mem: r.mem}
	f.postMessage(0, record{op: OpMissed})
	if r.Exits() {
		t.Error("the end is known before it was announced")
	}
	f.postMessage(0, record{op: OpExit})
	f.postMessage(1, record{op: OpMissed})
	if !r.Exits() {
		t.Error("the end is not known when it was announced")
	}
	err = r.Serve(func(m *Message) {
		if !r.Exits() {
			t.Error("the end is not known while its message is handled")
		}
		if m.Op == OpExit {
			r.Finish()
		}
	})
	failOn(t, err)
	r.releaseMapping()
	if r.Exits() {
		t.Error("Exits of a closed ring is true")
	}
}
