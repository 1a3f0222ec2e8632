// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"encoding/binary"
	"fmt"
	"math"
)

var little = binary.LittleEndian

// absent is the count of an array that is NULL.
const absent = math.MaxUint64

// decoder decodes a message. After the first error all values are zero.
type decoder struct {
	rest []byte
	err  error
}

// setError keeps the first error and ends the decoding: the rest of the message is not read.
func (d *decoder) setError(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	d.rest = nil
}

// readBytes returns the next n bytes, or nil after an error.
func (d *decoder) readBytes(n int) []byte {
	if n > len(d.rest) {
		d.setError("%d bytes where %d belong", len(d.rest), n)
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) readU8() uint8 {
	if b := d.readBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) readU16() uint16 {
	if b := d.readBytes(2); b != nil {
		return little.Uint16(b)
	}
	return 0
}

func (d *decoder) readU32() uint32 {
	if b := d.readBytes(4); b != nil {
		return little.Uint32(b)
	}
	return 0
}

func (d *decoder) readU64() uint64 {
	if b := d.readBytes(8); b != nil {
		return little.Uint64(b)
	}
	return 0
}

func (d *decoder) readI32() int32 { return int32(d.readU32()) }

// readPresence decodes the byte before a value that may be NULL, and tells whether the value follows.
func (d *decoder) readPresence() bool {
	switch b := d.readU8(); b {
	case 0:
		return false
	case 1:
		return true
	default:
		d.setError("%d for yes or no", b)
		return false
	}
}

// readArray returns the bytes of an array with elements of that size, nil if the array is NULL, and the number of
// elements.
func (d *decoder) readArray(size int, mayBeAbsent bool) ([]byte, int) {
	n := d.readU64()
	if n == absent && mayBeAbsent {
		return nil, 0
	}
	if n > uint64(len(d.rest)/size) {
		d.setError("an array of %d elements in %d bytes", n, len(d.rest))
		return nil, 0
	}
	b := d.readBytes(int(n) * size)
	if b == nil {
		return nil, 0
	}
	return b, int(n)
}

// readText decodes a string. NULL becomes "".
func (d *decoder) readText(mayBeAbsent bool) string {
	b, _ := d.readArray(1, mayBeAbsent)
	for _, c := range b {
		if c == 0 {
			d.setError("a NUL in a string")
			return ""
		}
	}
	return string(b)
}

// readSlice decodes an array. An empty array is not nil; NULL is.
func readSlice[T any](d *decoder, size int, mayBeAbsent bool, get func([]byte) T) []T {
	b, n := d.readArray(size, mayBeAbsent)
	if b == nil {
		return nil
	}
	all := make([]T, n)
	for i := range all {
		all[i] = get(b[i*size:])
	}
	return all
}

// checkCount checks the length of an array against the argument that states the length.
func (d *decoder) checkCount(name string, length int, there bool, n int64) {
	if there && int64(length) != n {
		d.setError("%s has %d elements, not %d", name, length, n)
	}
}

// checkRoom checks the number of elements of that size that the caller wants back. total is the sum of the bytes
// for earlier arguments.
func (d *decoder) checkRoom(name string, n int64, size int, total *int64) {
	if d.err != nil {
		return
	}
	if n < 0 || n > (MaxAnswer-*total)/int64(size) {
		d.setError("%s: %d elements are asked for", name, n)
		return
	}
	*total += n * int64(size)
}

// checkEnd fails if bytes are left, and tells whether the whole message was valid.
func (d *decoder) checkEnd() bool {
	if len(d.rest) > 0 {
		d.setError("%d bytes too many", len(d.rest))
	}
	return d.err == nil
}

// encoder builds an answer.
type encoder struct {
	out []byte
	err error
}

func (e *encoder) writeU8(v uint8)    { e.out = append(e.out, v) }
func (e *encoder) writeU16(v uint16)  { e.out = little.AppendUint16(e.out, v) }
func (e *encoder) writeU32(v uint32)  { e.out = little.AppendUint32(e.out, v) }
func (e *encoder) writeU64(v uint64)  { e.out = little.AppendUint64(e.out, v) }
func (e *encoder) writeI32(v int32)   { e.writeU32(uint32(v)) }
func (e *encoder) writeF32(v float32) { e.writeU32(math.Float32bits(v)) }

// writeCount begins an array of n elements. n may not be above room, the number that the caller wants back.
func (e *encoder) writeCount(name string, n int, room int64) {
	if int64(n) > room && e.err == nil {
		e.err = fmt.Errorf("%w: %d elements in %s, %d fit", ErrAnswer, n, name, room)
	}
	e.writeU64(uint64(n))
}

// writeText writes a string for a buffer of room bytes, the NUL included. Bytes that do not fit are left out.
func (e *encoder) writeText(s string, room int64) {
	s = s[:max(0, min(int64(len(s)), room-1))]
	e.writeU64(uint64(len(s)))
	e.out = append(e.out, s...)
}

func getU8(b []byte) uint8    { return b[0] }
func getU16(b []byte) uint16  { return little.Uint16(b) }
func getU32(b []byte) uint32  { return little.Uint32(b) }
func getU64(b []byte) uint64  { return little.Uint64(b) }
func getI32(b []byte) int32   { return int32(little.Uint32(b)) }
func getF32(b []byte) float32 { return math.Float32frombits(little.Uint32(b)) }
