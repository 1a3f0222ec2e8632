// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// compileText compiles the kernels of Text.
func compileText(t testing.TB) map[string]*ptx.Kernel {
	t.Helper()
	m, err := ptx.Parse("gemm.ptx", Text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ptx.Link(m)
	if err == nil {
		_, err = p.Place(memory.MinAddress)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*ptx.Kernel{}
	for _, name := range []string{Single, Double} {
		if out[name], err = p.Kernel(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// problem is a product with its memory.
type problem struct {
	kernel   string
	m, n, k  uint32
	batch    uint32
	flags    uint32
	lead     [4]uint32
	alpha    float64
	beta     float64
	operands [5][]byte // a, b, c, d, bias
}

func (p *problem) String() string {
	return fmt.Sprintf("%s %dx%dx%d, %d of them, flags %#x, leading %v, alpha %g, beta %g", p.kernel, p.m, p.n, p.k, p.batch, p.flags, p.lead, p.alpha, p.beta)
}

// shape is the number of rows and columns of an operand in memory.
func (p *problem) shape(i int) (rows, columns uint32) {
	switch i {
	case 0:
		if p.flags&transposedA != 0 {
			return p.k, p.m
		}
		return p.m, p.k
	case 1:
		if p.flags&transposedB != 0 {
			return p.n, p.k
		}
		return p.k, p.n
	case 4:
		return p.m, 1
	}
	return p.m, p.n
}

func (p *problem) kind(i int) elementType {
	if p.kernel == Double {
		return float64s
	}
	return elementType(p.flags >> (typesAt + 2*[]int{0, 1, 2, 2, 3}[i]) & 3)
}

// stride is the distance from product to product, in elements.
func (p *problem) stride(i int) uint64 {
	_, columns := p.shape(i)
	return uint64(p.lead[i])*uint64(columns) + 16
}

// base is the address of an operand.
func base(i int) uint64 { return memory.MinAddress + uint64(i+1)<<32 }

// params are the parameters as the kernels take them.
func (p *problem) params() []byte {
	var b []byte
	for i := range 5 {
		b = binary.LittleEndian.AppendUint64(b, base(i))
	}
	for i := range 4 {
		b = binary.LittleEndian.AppendUint64(b, p.stride(i))
	}
	for _, v := range []uint32{p.m, p.n, p.k, p.lead[0], p.lead[1], p.lead[2], p.lead[3], p.flags} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, v := range []float64{p.alpha, p.beta} {
		if p.kernel == Double {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	}
	return b
}

func (p *problem) grid() [3]uint32 {
	return [3]uint32{(p.m + tileRows - 1) / tileRows, (p.n + tileColumns - 1) / tileColumns, p.batch}
}

// mapMemory makes a memory of the operands, with D of its own.
func (p *problem) mapMemory(t testing.TB) (*memory.Memory, []byte) {
	t.Helper()
	m := new(memory.Memory)
	var d []byte
	for i, b := range p.operands {
		c := bytesOf(alignedSlice[float32]((len(b) + 3) / 4))[:len(b)]
		copy(c, b)
		if err := m.Map(base(i), c, i != 3); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			d = c
		}
	}
	return m, d
}

// fill makes up the bytes of an operand: some elements are NaN, infinite, subnormal or 0.
func (p *problem) fill(r *rand.Rand, i int, special bool) {
	kind, n := p.kind(i), p.stride(i%4)*uint64(p.batch)
	if i == 4 {
		n = uint64(p.m)
	}
	var b []byte
	for range n {
		v := r.NormFloat64()
		pick := 1000
		if special {
			pick = r.IntN(200)
		}
		switch kind {
		case float64s:
			w := math.Float64bits(v)
			switch pick {
			case 0:
				w = math.Float64bits(math.NaN()) | 1<<63 | 5
			case 1:
				w = math.Float64bits(math.Inf(1))
			case 2, 3, 4, 5:
				w = r.Uint64N(1 << 52)
			case 6:
				w = 1 << 63
			}
			b = binary.LittleEndian.AppendUint64(b, w)
		case float32s:
			w := math.Float32bits(float32(v))
			switch pick {
			case 0:
				w = 0xffc00005
			case 1:
				w = 0xff800000
			case 2, 3, 4, 5:
				w = r.Uint32N(1 << 23)
			case 6:
				w = 1 << 31
			}
			b = binary.LittleEndian.AppendUint32(b, w)
		case float16s:
			w := encodeHalf(float32(v))
			if pick < 10 {
				w = uint16(r.Uint32())
			}
			b = binary.LittleEndian.AppendUint16(b, w)
		default:
			w := encodeBrain(float32(v))
			if pick < 10 {
				w = uint16(r.Uint32())
			}
			b = binary.LittleEndian.AppendUint16(b, w)
		}
	}
	p.operands[i] = b
}

// makeProblem makes up a product.
func makeProblem(r *rand.Rand) *problem {
	p := &problem{kernel: Single, m: 1 + r.Uint32N(150), n: 1 + r.Uint32N(120), k: r.Uint32N(40), batch: 1 + r.Uint32N(2), flags: r.Uint32N(16), alpha: 1}
	if r.IntN(3) == 0 {
		p.kernel = Double
	} else {
		for i := range 4 {
			p.flags |= r.Uint32N(3) << (typesAt + 2*i)
		}
	}
	if r.IntN(4) == 0 {
		p.m, p.n, p.k = 1+p.m/8, 1+p.n/8, chunk-8+r.Uint32N(2*chunk)
	}
	if r.IntN(2) == 0 {
		p.alpha, p.beta = r.NormFloat64(), r.NormFloat64()
	}
	special := r.IntN(2) == 0
	for i := range 5 {
		if i < 4 {
			rows, _ := p.shape(i)
			p.lead[i] = max(rows, 1) + r.Uint32N(3)
		}
		p.fill(r, i, special)
	}
	return p
}

// runPTX runs a product by the interpreter, and returns D.
func runPTX(t testing.TB, k *ptx.Kernel, p *problem) []byte {
	t.Helper()
	m, d := p.mapMemory(t)
	g := p.grid()
	err := k.Launch(context.Background(), ptx.Config{
		Grid: ptx.Dim3{X: g[0], Y: g[1], Z: g[2]}, Block: ptx.Dim3{X: Threads, Y: 1, Z: 1}, Params: p.params(), Memory: m, Interpret: true,
	})
	if err != nil {
		t.Fatalf("launch of %v: %v", p, err)
	}
	return d
}

// TestRunAsPTX: each multiplier leaves the bits of the interpreted PTX.
func TestRunAsPTX(t *testing.T) {
	kernels := compileText(t)
	if !Available() {
		t.Skip("this processor has no AVX2")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		p := makeProblem(r)
		want := runPTX(t, kernels[p.kernel], p)
		for _, by := range multipliers {
			m, d := p.mapMemory(t)
			var issued atomic.Uint64
			touched := &memory.TouchedRanges{}
			done, ok, err := runBy(t.Context(), Launch{Kernel: p.kernel, Grid: p.grid(), Params: p.params(), Memory: m, Issued: &issued, Touched: touched}, by)
			g := p.grid()
			if blocks := uint64(g[0]) * uint64(g[1]) * uint64(g[2]); !ok || err != nil || done != blocks {
				t.Fatalf("%s, %v: Run did %d of %d blocks, ok %t, error %v", by.name, p, done, blocks, ok, err)
			}
			if !bytes.Equal(d, want) {
				t.Fatalf("%s, %v: other bits than the PTX", by.name, p)
			}
			for _, x := range touched.Ranges() {
				if x.Written != (x.Base == base(3)) {
					t.Fatalf("%s, %v: the range at %#x counts as written: %t", by.name, p, x.Base, x.Written)
				}
			}
		}
	}
}

// TestStopBetweenBlocks: a launch that stops after any number of blocks and goes on ends as an undisturbed launch does.
func TestStopBetweenBlocks(t *testing.T) {
	if !Available() {
		t.Skip("this processor has no AVX2")
	}
	p := &problem{kernel: Single, m: 400, n: 200, k: 70, batch: 2, flags: readsC, alpha: 2, beta: 1, lead: [4]uint32{400, 70, 400, 400}}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 5 {
		p.fill(r, i, false)
	}
	m, want := p.mapMemory(t)
	l := Launch{Kernel: p.kernel, Grid: p.grid(), Params: p.params(), Memory: m}
	blocks, _, err := Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		m, d := p.mapMemory(t)
		l := l
		l.Memory, l.Workers = m, workers
		for steps := 0; l.First < blocks; steps++ {
			var asked atomic.Int64
			l.Paused = func() bool { return asked.Add(1) > 2 }
			if l.First, _, err = Run(t.Context(), l); err != nil || steps > int(blocks) {
				t.Fatalf("%d workers, %d blocks done after %d steps: %v", workers, l.First, steps, err)
			}
		}
		if !bytes.Equal(d, want) {
			t.Errorf("%d workers: other bits than the undisturbed launch", workers)
		}
	}
}

// TestLeftToPTX: Run begins no product with an operand that is not whole in memory.
func TestLeftToPTX(t *testing.T) {
	if !Available() {
		t.Skip("this processor has no AVX2")
	}
	make := func() *problem {
		p := &problem{kernel: Single, m: 40, n: 20, k: 10, batch: 2, flags: readsC | addsBias, alpha: 1, beta: 1, lead: [4]uint32{40, 10, 40, 40}}
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 5 {
			p.fill(r, i, false)
		}
		return p
	}
	for name, spoil := range map[string]func(p *problem, params []byte) []byte{
		"a short A":                      func(p *problem, b []byte) []byte { p.operands[0] = p.operands[0][:len(p.operands[0])/2]; return b },
		"a short D":                      func(p *problem, b []byte) []byte { p.operands[3] = p.operands[3][:len(p.operands[3])/2]; return b },
		"short parameters":               func(_ *problem, b []byte) []byte { return b[:len(b)-8] },
		"a type without a name":          func(_ *problem, b []byte) []byte { b[101] |= 3; return b },
		"an address that is not aligned": func(_ *problem, b []byte) []byte { b[0] |= 2; return b },
		"a leading dimension beyond all addresses": func(_ *problem, b []byte) []byte {
			binary.LittleEndian.PutUint32(b[80:], 1<<32-1)
			binary.LittleEndian.PutUint32(b[84:], 1<<32-1)
			return b
		},
		"a D that cannot be written": func(_ *problem, b []byte) []byte { copy(b[24:32], b[16:24]); return b },
	} {
		p := make()
		params := spoil(p, p.params())
		m, d := p.mapMemory(t)
		before := bytes.Clone(d)
		if done, ok, err := Run(t.Context(), Launch{Kernel: p.kernel, Grid: p.grid(), Params: params, Memory: m}); ok || done != 0 || err != nil {
			t.Errorf("Run with %s: %d blocks, ok %t, error %v, want it left to the PTX", name, done, ok, err)
		}
		if !bytes.Equal(d, before) {
			t.Errorf("Run with %s has written to D", name)
		}
	}
}

// TestFormats: every f16 and bf16 comes back as it was, and a number between two becomes the nearest, or the even one.
func TestFormats(t *testing.T) {
	for _, f := range []struct {
		name     string
		decode   func(uint16) float32
		encode   func(float32) uint16
		infinity uint16
	}{{"f16", decodeHalf, encodeHalf, 0x7c00}, {"bf16", decodeBrain, encodeBrain, 0x7f80}} {
		for h := uint16(0); h < f.infinity; h++ {
			low, high := f.decode(h), f.decode(h+1)
			if got := f.encode(low); got != h {
				t.Fatalf("%s %#x, decoded and encoded, is %#x", f.name, h, got)
			}
			if got := f.encode(-low); got != h|0x8000 {
				t.Fatalf("%s -%#x, decoded and encoded, is %#x", f.name, h, got)
			}
			if h+1 == f.infinity {
				break
			}
			middle := float32((float64(low) + float64(high)) / 2)
			even := h + h&1
			down, up := math.Nextafter32(middle, low), math.Nextafter32(middle, high)
			if a, b, c := f.encode(down), f.encode(middle), f.encode(up); a != h || b != even || c != h+1 {
				t.Fatalf("%s: around the middle of %#x and the next: %#x, %#x, %#x", f.name, h, a, b, c)
			}
		}
		for _, v := range []float32{float32(math.Inf(1)), math.MaxFloat32} {
			if got := f.encode(v); got != f.infinity {
				t.Errorf("%s: %g is encoded as %#x, want infinity", f.name, v, got)
			}
		}
		if got := f.encode(float32(math.NaN())); got != smallNaN {
			t.Errorf("%s: a NaN is encoded as %#x", f.name, got)
		}
	}
}

// processorTime is the processor time of this process, without that of others on a busy machine.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkProduct is a product of square matrices on a single core, in each way that this processor has.
func BenchmarkProduct(b *testing.B) {
	for _, by := range multipliers {
		for _, kind := range []struct {
			name, kernel string
			flags        uint32
		}{
			{"f32", Single, 0}, {"f32, A transposed", Single, transposedA}, {"f64", Double, 0},
			{"bf16", Single, 0x2a << typesAt}, {"f16", Single, 0x15 << typesAt},
		} {
			for _, n := range []uint32{256, 1024} {
				b.Run(fmt.Sprintf("%s, %s, %d", by.name, kind.name, n), func(b *testing.B) {
					p := &problem{kernel: kind.kernel, m: n, n: n, k: n, batch: 1, flags: kind.flags, alpha: 1, lead: [4]uint32{n, n, n, n}}
					r := rand.New(rand.NewPCG(7, 8))
					for i := range 5 {
						p.fill(r, i, false)
					}
					m, _ := p.mapMemory(b)
					l := Launch{Kernel: p.kernel, Grid: p.grid(), Params: p.params(), Memory: m, Workers: 1}
					before := processorTime(b)
					for b.Loop() {
						if _, ok, err := runBy(b.Context(), l, by); !ok || err != nil {
							b.Fatal(ok, err)
						}
					}
					b.ReportMetric(2*float64(n)*float64(n)*float64(n)*float64(b.N)/(processorTime(b)-before).Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

// BenchmarkWorkers measures products with several workers, and their allocations: a square product, and products in f32
// that are small but for k.
func BenchmarkWorkers(b *testing.B) {
	for _, shape := range []struct{ m, n, k uint32 }{{1024, 1024, 1024}, {512, 192, 40000}, {64, 12, 40000}, {32, 32, 32}} {
		for _, workers := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("%d x %d x %d, %d workers", shape.m, shape.n, shape.k, workers), func(b *testing.B) {
				p := &problem{kernel: Single, m: shape.m, n: shape.n, k: shape.k, batch: 1, alpha: 1, lead: [4]uint32{shape.m, shape.k, shape.m, shape.m}}
				r := rand.New(rand.NewPCG(9, 10))
				for i := range 5 {
					p.fill(r, i, false)
				}
				m, _ := p.mapMemory(b)
				l := Launch{Kernel: p.kernel, Grid: p.grid(), Params: p.params(), Memory: m, Workers: workers}
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					if _, ok, err := Run(b.Context(), l); !ok || err != nil {
						b.Fatal(ok, err)
					}
				}
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "processor-µs/op")
			})
		}
	}
}
