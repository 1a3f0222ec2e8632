// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "unsafe"

// The constants of wire.h, by the same names. The test compares each of them.
const (
	ringMagic   = 0x31474e4952474e53
	ringVersion = 1
	unitSize    = 64
	lanes       = 128
	laneUnits   = 16384
	lanesAt     = 4096
	firstUnit   = 1024
	recordUnits = 8192
	sizeMax     = 65536
	countsMax   = 1024
	ringSize    = unitSize * (firstUnit + lanes*laneUnits)

	lastMask     = 0xffffff
	asleep       = 0x1000000
	callsShut    = 1 << 32
	countedShut  = 1 << 33
	closedBit    = 1 << 34
	grantOne     = 1 << 40
	grantsMask   = 0xffff << 40
	leftBit      = 0x80000000
	positionMask = 0x7fffffff
	waitsBit     = 1

	flagCall = 1

	asksAgain   = 1
	statusAgain = -2

	stateAwaited       = 0
	stateAwaitedAsleep = 1
	stateAnswered      = 2
	stateUnanswered    = 3
)

// MaxSize is how many bytes of arguments a message may have.
const MaxSize = sizeMax

// The structures of wire.h, laid over the mapping. Their words are read and written by
// sync/atomic only: another process writes them at the same time.
type (
	ringHead struct {
		magic                           uint64
		version, lanes, laneUnits, size uint32
		_                               [104]byte

		order uint64
		_     [120]byte

		left, can uint32
		_         [120]byte

		freed, fault uint32
		pipe         uint64
		_            [240]byte
	}

	laneHead struct {
		state, inside, tail uint32
		_                   [52]byte

		head uint32
		_    [60]byte
	}

	// The flags and counts of a record share a word, flags below.
	recordHead struct {
		prev, position, op, flagsCounts uint32
		size, bulk, room, thread        uint32
	}

	answerHead struct {
		state, status, length uint32
		_                     uint32
	}

	count struct {
		key uint64
		n   uint32
		_   uint32
	}
)

const (
	recordSize = uint32(unsafe.Sizeof(recordHead{}))
	answerSize = uint32(unsafe.Sizeof(answerHead{}))
	countSize  = uint32(unsafe.Sizeof(count{}))
	laneSize   = uint32(unsafe.Sizeof(laneHead{}))
)
