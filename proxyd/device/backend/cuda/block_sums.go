// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// A block's sum is a hash of its bytes under keys of the backend, which no program knows. A kernel of the server's makes
// the sums on the device, at the speed of its memory, so that bytes that the host has need not be moved to be known.
//
// A sum is two numbers below 2^61-1, a prime, each made with keys of its own in the same way. A block is 32 pieces of
// 64 KiB, and a piece has 16384 words of 32 bits. Of each four times 128 words in turn, a thread takes four, and adds up
// its words by Horner's rule: sum = sum*r + word, with the key r. The 128 sums of a piece's threads, each times a key of
// the thread, are the piece's. The 32 sums of a block's pieces, each times a key of the piece, are the block's. For two
// blocks that differ, less than one of 2^53 keys makes either number the same, since a polynomial of degree 127 has at
// most 127 zeros: less than one of 2^106 makes the sums the same.
type blockSum [2]uint64

// zeroSum is the sum of a block of zeros.
var zeroSum blockSum

const (
	sumPrime   = 1<<61 - 1
	sumPiece   = 64 << 10
	sumThreads = 128
	sumPieces  = backend.Granule / sumPiece
)

// sumKeys are the keys, each below sumPrime: for the two numbers of a sum.
type sumKeys struct {
	Rule    [2]uint64 // of Horner's rule
	Threads [sumThreads][2]uint64
	Pieces  [sumPieces][2]uint64
}

// newSumKeys makes keys.
func newSumKeys() *sumKeys {
	k := &sumKeys{}
	fill := func(list [][2]uint64) {
		for i := range list {
			for j := range list[i] {
				var b [8]byte
				_, _ = rand.Read(b[:]) // never fails
				list[i][j] = binary.LittleEndian.Uint64(b[:]) % sumPrime
			}
		}
	}
	rule := [][2]uint64{{}}
	fill(rule)
	k.Rule = rule[0]
	fill(k.Threads[:])
	fill(k.Pieces[:])
	return k
}

// ofKernel are the keys that the kernel has.
func (k *sumKeys) ofKernel() []byte {
	var out []byte
	for _, pair := range append([][2]uint64{k.Rule}, k.Threads[:]...) {
		out = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(out, pair[0]), pair[1])
	}
	return out
}

// multiplySum is a product modulo sumPrime.
func multiplySum(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	x := hi<<3 | lo>>61
	x += lo & sumPrime
	return x % sumPrime
}

// joinPieces makes the sum of a block of the sums of its pieces.
func (k *sumKeys) joinPieces(pieces []byte) (out blockSum) {
	for i := range sumPieces {
		for j := range out {
			v := binary.LittleEndian.Uint64(pieces[16*i+8*j:])
			out[j] = (out[j] + multiplySum(v, k.Pieces[i][j])) % sumPrime
		}
	}
	return out
}

// sumKernel is the kernel, in PTX: a block of threads makes the sum of a piece. In a register, a sum may be more than
// sumPrime by 2 at most.
func sumKernel() string {
	var steps strings.Builder
	for word := range 4 {
		fmt.Fprintf(&steps, "\tcvt.u64.u32 %%word, %%r%d;\n", word)
		for number := range 2 {
			steps.WriteString(hornerStep(fmt.Sprintf("%%sum%d", number), fmt.Sprintf("%%rule%d", number), "%word"))
		}
	}
	var ends strings.Builder
	for number := range 2 {
		sum := fmt.Sprintf("%%sum%d", number)
		ends.WriteString(hornerStep(sum, fmt.Sprintf("%%mine%d", number), "%zero"))
		ends.WriteString(reduceSum(sum))
	}
	joins := strings.Builder{}
	for number := range 2 {
		sum := fmt.Sprintf("%%sum%d", number)
		fmt.Fprintf(&joins, "\tadd.u64 %s, %s, %%mine%d;\n", sum, sum, number)
		joins.WriteString(reduceSum(sum))
	}
	return fmt.Sprintf(sumKernelForm, 2*(1+sumThreads), 16*sumThreads, uint64(sumPrime), sumPiece, sumPiece/(16*sumThreads), 16*sumThreads, steps.String(), ends.String(), sumThreads/2, joins.String())
}

// hornerStep is sum = sum*factor + word.
func hornerStep(sum, factor, word string) string {
	return strings.NewReplacer("SUM", sum, "FACTOR", factor, "WORD", word).Replace(`	mul.lo.u64 %low, SUM, FACTOR;
	mul.hi.u64 %high, SUM, FACTOR;
	shl.b64 %high, %high, 3;
	shr.u64 %top, %low, 61;
	or.b64 %high, %high, %top;
	and.b64 %low, %low, %prime;
	add.u64 %low, %low, %high;
	add.u64 %low, %low, WORD;
	and.b64 %top, %low, %prime;
	shr.u64 %low, %low, 61;
	add.u64 SUM, %top, %low;
`)
}

// reduceSum makes a sum less than sumPrime.
func reduceSum(sum string) string {
	return strings.ReplaceAll(`	and.b64 %top, SUM, %prime;
	shr.u64 %low, SUM, 61;
	add.u64 SUM, %top, %low;
	setp.ge.u64 %more, SUM, %prime;
	@%more sub.u64 SUM, SUM, %prime;
`, "SUM", sum)
}

const sumKernelForm = `.version 7.0
.target sm_70
.address_size 64

.visible .const .align 8 .b64 keys[%d];

.visible .entry sum_pieces(.param .u64 from, .param .u64 to)
{
	.reg .pred %%more, %%mine, %%left;
	.reg .b32 %%r<4>;
	.reg .b32 %%thread, %%piece, %%count, %%place, %%other, %%half;
	.reg .b64 %%from, %%to, %%at, %%prime, %%zero, %%word, %%low, %%high, %%top;
	.reg .b64 %%sum0, %%sum1, %%rule0, %%rule1, %%mine0, %%mine1;
	.shared .align 16 .b8 sums[%d];

	mov.u64 %%prime, %d;
	mov.u64 %%zero, 0;
	mov.u32 %%thread, %%tid.x;
	mov.u32 %%piece, %%ctaid.x;
	mov.u64 %%at, keys;
	ld.const.u64 %%rule0, [%%at];
	ld.const.u64 %%rule1, [%%at+8];
	mul.wide.u32 %%word, %%thread, 16;
	add.u64 %%at, %%at, %%word;
	ld.const.u64 %%mine0, [%%at+16];
	ld.const.u64 %%mine1, [%%at+24];
	ld.param.u64 %%from, [from];
	add.u64 %%from, %%from, %%word;
	mul.wide.u32 %%word, %%piece, %d;
	add.u64 %%from, %%from, %%word;
	mov.u64 %%sum0, 0;
	mov.u64 %%sum1, 0;
	mov.u32 %%count, %d;
next_words:
	ld.global.v4.u32 {%%r0, %%r1, %%r2, %%r3}, [%%from];
	add.u64 %%from, %%from, %d;
%s	sub.u32 %%count, %%count, 1;
	setp.ne.u32 %%left, %%count, 0;
	@%%left bra next_words;
%s	mov.u32 %%place, sums;
	mad.lo.u32 %%place, %%thread, 16, %%place;
	st.shared.u64 [%%place], %%sum0;
	st.shared.u64 [%%place+8], %%sum1;
	mov.u32 %%half, %d;
join_sums:
	bar.sync 0;
	setp.ge.u32 %%mine, %%thread, %%half;
	@%%mine bra joined;
	mad.lo.u32 %%other, %%half, 16, %%place;
	ld.shared.u64 %%mine0, [%%other];
	ld.shared.u64 %%mine1, [%%other+8];
%s	st.shared.u64 [%%place], %%sum0;
	st.shared.u64 [%%place+8], %%sum1;
joined:
	shr.u32 %%half, %%half, 1;
	setp.ne.u32 %%left, %%half, 0;
	@%%left bra join_sums;
	setp.ne.u32 %%mine, %%thread, 0;
	@%%mine bra end;
	ld.param.u64 %%to, [to];
	mul.wide.u32 %%word, %%piece, 16;
	add.u64 %%to, %%to, %%word;
	st.global.u64 [%%to], %%sum0;
	st.global.u64 [%%to+8], %%sum1;
end:
	ret;
}
`

// summer makes sums on a device.
type summer struct {
	mu       sync.Mutex
	tried    bool
	function driver.Function
	err      error // why the device makes no sums
}

// findFunction loads the kernel, at the first time.
func (s *summer) findFunction(d *device) (driver.Function, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried {
		return s.function, s.err
	}
	s.tried = true
	s.function, s.err = d.loadSumKernel()
	return s.function, s.err
}

// loadSumKernel loads the kernel into the server's own context, and writes its keys.
func (d *device) loadSumKernel() (driver.Function, error) {
	drv, keys := d.backend.drv, d.backend.sumKeys.ofKernel()
	m, _, err := drv.Load(d.ctx, append([]byte(sumKernel()), 0), backend.LoadConfig{}, 0)
	if err != nil {
		return driver.Function{}, err
	}
	at, n, err := drv.Global(d.ctx, m, "keys")
	if err == nil && n != uint64(len(keys)) {
		err = fmt.Errorf("the keys have %d bytes, not %d: %w", n, len(keys), backend.InvalidImage)
	}
	if err == nil {
		err = d.borrowDriverStream(func(l *driverStream) error {
			return l.copyIn(at, n, func(part []byte) error { copy(part, keys); return nil })
		})
	}
	if err != nil {
		return driver.Function{}, err
	}
	return drv.Function(d.ctx, m, "sum_pieces")
}

// sumBlocks returns the sums of blocks in the device's memory, or an error if the device makes none. No work may change
// the bytes.
func (d *device) sumBlocks(at backend.Addr, n uint64) ([]blockSum, error) {
	f, err := d.sums.findFunction(d)
	if err != nil {
		return nil, err
	}
	b := d.backend
	buffer, err := b.pinned.getBuffer()
	if err != nil {
		return nil, err
	}
	defer b.pinned.putBuffer(buffer)
	var out []blockSum
	for most := uint64(len(buffer) / 16 / sumPieces); n > 0; {
		blocks := min(n/backend.Granule, most)
		err := d.borrowDriverStream(func(l *driverStream) error {
			params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(at)), uint64(driver.AddressOf(buffer)))
			launch := &driver.Launch{
				Function: f, Grid: backend.Dim{X: uint32(blocks * sumPieces), Y: 1, Z: 1}, Block: backend.Dim{X: sumThreads, Y: 1, Z: 1},
				Params: params, Offsets: []uint32{0, 8},
			}
			if err := b.drv.Launch(l.ctx, l.stream, launch); err != nil {
				return err
			}
			return l.waitIdle()
		})
		if err != nil {
			return nil, err
		}
		for i := range blocks {
			out = append(out, b.sumKeys.joinPieces(buffer[16*sumPieces*i:]))
		}
		at, n = at+backend.Addr(blocks*backend.Granule), n-blocks*backend.Granule
	}
	return out, nil
}
