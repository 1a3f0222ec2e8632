// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// echo is a Backend that writes down the calls, answers at random, and writes the answers down, too, in the
// format of libsingshim/shim/device/test/roundtrip.c.
type echo struct {
	random *rand.Rand
	line   strings.Builder
	lines  []string
	fails  bool // some calls fail
}

var _ Backend = &echo{}

func (x *echo) begin(symbol string, c *Call) {
	x.line.Reset()
	x.line.WriteString(symbol)
	if c.PerThread {
		x.line.WriteString("*")
	}
	x.line.WriteString(":")
}

func (x *echo) field(name string, b []byte) {
	if len(b) > 8 {
		fmt.Fprintf(&x.line, " %s=%016x", name, hashOf(b))
		return
	}
	var n uint64
	for i, v := range b {
		n |= uint64(v) << (8 * i)
	}
	fmt.Fprintf(&x.line, " %s=%x", name, n)
}

func (x *echo) array(name string, b []byte, n int, none bool) {
	if none {
		fmt.Fprintf(&x.line, " %s=none", name)
		return
	}
	fmt.Fprintf(&x.line, " %s=%d*%016x", name, n, hashOf(b))
}

func (x *echo) wanted(name string, is bool) {
	x.line.WriteString(" " + name + map[bool]string{true: "?", false: "!"}[is])
}

func (x *echo) result(posted bool) Result {
	var r Result
	if !posted && x.fails && x.random.IntN(4) == 0 {
		r = []Result{ResultOutOfMemory, ResultInvalidHandle, ResultNcclInProgress}[x.random.IntN(3)]
	}
	fmt.Fprintf(&x.line, " -> %d", r)
	return r
}

func (x *echo) end() { x.lines = append(x.lines, x.line.String()) }

func (x *echo) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(x.random.Uint32())
	}
	return b
}

// u64 returns a random number that fits into size bytes.
func (x *echo) u64(size int) uint64 { return x.random.Uint64() >> (64 - 8*size) }

func (x *echo) text(room int64) string {
	if room < 2 {
		return ""
	}
	b := make([]byte, x.random.IntN(int(min(room, 64))))
	for i := range b {
		b[i] = 'a' + byte(x.random.IntN(26))
	}
	return string(b)
}

func inventValues[T any](x *echo, n int64, size int, get func([]byte) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = get(x.bytes(size))
	}
	return all
}

func encodeWith(put func(*encoder)) []byte {
	e := &encoder{}
	put(e)
	return e.out
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}
