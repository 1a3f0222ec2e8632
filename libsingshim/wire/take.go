// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"sync/atomic"
)

// message is a record as it was taken: read once, checked, and the server's own from then on. Its
// bytes are still in the lane, between offsets that are known to be inside of the lane.
type message struct {
	number           uint64 // in the order
	lane             int
	end              uint32 // position
	unit             uint32
	op, thread       uint32
	call             bool
	counts           uint32
	args, size, bulk uint32 // args is an offset in the mapping; bulk follows, at a multiple of 8
	body, room       uint32 // where an answer goes, and how much fits
}

// maxUnits is how many messages there can be: each has a unit at least.
const maxUnits = lanes * laneUnits

// maxKeys bounds the counts that a process makes the server remember.
const maxKeys = 1 << 16

// takeOrder moves the messages in the order to the backlog. The caller holds mu. An error is final, and broken has the
// error, too.
func (r *Ring) takeOrder() error {
	if r.broken != nil {
		return r.broken
	}
	if r.broken = r.tryTake(); r.broken != nil {
		r.wakeReader()
	}
	return r.broken
}

func (r *Ring) tryTake() error {
	// Before the order: messages from a lane that was left are in the order by now.
	if left := atomic.LoadUint32(&r.mem.viewRingHead().left); left != r.left {
		r.left = left
		for i := range r.lanes {
			if atomic.LoadUint32(&r.mem.laneAt(i).state)&leftBit != 0 && !r.lanes[i].leaving {
				r.lanes[i].leaving = true
				r.leaving = append(r.leaving, i)
			}
		}
	}
	word := &r.mem.viewRingHead().order
	old := atomic.LoadUint64(word)
	if old&lastMask != 0 {
		old = atomic.AndUint64(word, ^uint64(lastMask))
	}
	if err := r.checkGates(old); err != nil || old&lastMask == 0 {
		return err
	}
	units, err := r.chainOf(uint32(old & lastMask))
	if err != nil {
		return err
	}
	before := r.counted
	for _, unit := range slices.Backward(units) {
		m, err := r.readRecord(unit)
		if err != nil {
			return err
		}
		r.backlog = append(r.backlog, m)
	}
	if r.onCounted != nil && r.counted != before {
		r.onCounted()
	}
	return nil
}

// checkGates checks the parts of order that only the server may change.
func (r *Ring) checkGates(order uint64) error {
	if gates := order & (callsShut | countedShut); gates != r.gates {
		return hostileError("gates are %#x and should be %#x", gates, r.gates)
	}
	if order&closedBit != 0 && !r.closed.Load() {
		return hostileError("it closed the ring")
	}
	credits := order & grantsMask / grantOne
	if credits > r.credits {
		return hostileError("%d grants, of %d", credits, r.credits)
	}
	r.credits = credits
	if rest := order &^ uint64(lastMask|asleep|callsShut|countedShut|closedBit|grantsMask); rest != 0 {
		return hostileError("order has bits %#x", rest)
	}
	return nil
}

// chainOf returns the units from the latest message to the first.
func (r *Ring) chainOf(unit uint32) ([]uint32, error) {
	units := r.units[:0]
	var mark uint32 // a unit that the walk has met: to meet it again means a circle
	for unit != 0 {
		if unit < firstUnit || unit >= firstUnit+maxUnits {
			return nil, hostileError("a message at unit %d, where no lane is", unit)
		}
		// The second condition ends a walk over links that the process changes meanwhile.
		if unit == mark || len(units) == maxUnits {
			return nil, hostileError("messages are in a circle")
		}
		if n := len(units); n&(n-1) == 0 {
			mark = unit
		}
		units = append(units, unit)
		unit = atomic.LoadUint32(&r.mem.recordAt(unit).prev)
	}
	if r.units = units; cap(units) > 1<<16 {
		r.units = nil
	}
	return units, nil
}

// readRecord reads the record at a unit of a lane; it must be the lane's next.
func (r *Ring) readRecord(unit uint32) (message, error) {
	h := r.mem.recordAt(unit)
	position := atomic.LoadUint32(&h.position)
	flagsCounts := atomic.LoadUint32(&h.flagsCounts)
	size, bulk, room := atomic.LoadUint32(&h.size), atomic.LoadUint32(&h.bulk), atomic.LoadUint32(&h.room)
	flags, counts := flagsCounts&0xffff, flagsCounts>>16

	if flags&^flagCall != 0 || counts > countsMax || size > sizeMax || bulk > recordUnits*unitSize || room > recordUnits*unitSize {
		return message{}, hostileError("a message with flags %#x, %d counts and %d, %d and %d bytes", flags, counts, size, bulk, room)
	}
	// No sum can overflow: each part was bounded.
	call := flags&flagCall != 0
	front := recordSize
	if call {
		front += answerSize
	}
	args := counts*countSize + (size+7)&^7
	units := (front + max(args+bulk, room) + unitSize - 1) / unitSize
	if units > recordUnits {
		return message{}, hostileError("a message of %d units", units)
	}

	i := int(unit-firstUnit) / laneUnits
	l := &r.lanes[i]
	begin := l.next
	if begin%laneUnits+units > laneUnits {
		begin = (begin + laneUnits - 1) &^ (laneUnits - 1) & positionMask
	}
	end := (begin + units) & positionMask
	switch {
	case position != begin || (unit-firstUnit)%laneUnits != begin%laneUnits:
		return message{}, hostileError("lane %d: a message at position %d, unit %d, where %d is next", i, position, unit, begin)
	case l.open.Load() != 0:
		return message{}, hostileError("lane %d: a message while a call waits", i)
	case (end-l.release.Load())&positionMask > laneUnits:
		return message{}, hostileError("lane %d: more messages than it has room", i)
	}
	body := unit*unitSize + front
	if err := r.addCounts(body, counts); err != nil {
		return message{}, err
	}
	l.next = end
	if call {
		l.open.Store(unit)
	}
	r.taken++
	return message{
		number: r.taken - 1, lane: i, end: end, unit: unit, call: call, counts: counts,
		op: atomic.LoadUint32(&h.op), thread: atomic.LoadUint32(&h.thread),
		args: body + counts*countSize, size: size, bulk: bulk,
		body: body, room: max(args+bulk, room),
	}, nil
}

// addCounts adds the counts at an offset.
func (r *Ring) addCounts(offset, n uint32) error {
	for i := range n {
		key, by := r.mem.countAt(offset + i*countSize)
		if _, known := r.counts[key]; !known && len(r.counts) == maxKeys {
			return hostileError("it counts for more than %d keys", maxKeys)
		}
		r.counts[key] += uint64(by)
	}
	if n > 0 {
		r.counted++
	}
	return nil
}
