// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// outcomeOf is all effects of a launch that can be seen.
type outcomeOf struct {
	err     string
	mem     [][]byte
	issued  uint64
	touched []memory.TouchedRange
}

// codeStore is a store in memory.
type codeStore struct {
	mu    sync.Mutex
	saved map[[sha256.Size]byte][]byte
	taken int // how often Load had the code
}

func newCodeStore() *codeStore { return &codeStore{saved: map[[sha256.Size]byte][]byte{}} }

func (s *codeStore) Load(key [sha256.Size]byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := s.saved[key]
	if data != nil {
		s.taken++
	}
	return data
}

func (s *codeStore) Save(key [sha256.Size]byte, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved[key] = data
}

// storeCode compiles a kernel into a store, so that a launch with that store runs code that was written down and read
// again.
func (m *machine) storeCode(k *Kernel) *codeStore {
	s := newCodeStore()
	for _, c := range k.machine.codes {
		if _, err := native.CompileStored(c.plan, s); err != nil {
			m.tb.Log("interpreted:", err)
		}
	}
	return s
}

// runBoth runs a launch by the interpreter and by machine code, compares the outcomes, and leaves the latter.
func (m *machine) runBoth(k *Kernel, cfg Config) error {
	m.tb.Helper()
	var before [][]byte
	for _, b := range m.mapped {
		before = append(before, slices.Clone(b))
	}
	var left [3]outcomeOf
	var err error
	for i := range left {
		var issued atomic.Uint64
		var touched memory.TouchedRanges
		for j, b := range m.mapped {
			copy(b, before[j])
		}
		c := cfg
		c.Interpret, c.Issued, c.Touched = i == 0, &issued, &touched
		if i == 2 {
			c.Touched = nil // accesses begin with the ranges of the launch before
		}
		c.Code = m.storeCode(k)
		err = k.Launch(context.Background(), c)
		left[i] = outcomeOf{err: fmt.Sprint(err), touched: touched.Ranges()}
		if err == nil {
			left[i].issued = issued.Load() // else a part of them
		}
		for _, b := range m.mapped {
			left[i].mem = append(left[i].mem, slices.Clone(b))
		}
	}
	left[2].touched = left[1].touched
	left[0].compareOutcomes(m.tb, &left[1])
	left[0].compareOutcomes(m.tb, &left[2])
	return err
}

func (a *outcomeOf) compareOutcomes(tb testing.TB, b *outcomeOf) {
	tb.Helper()
	if a.err != b.err {
		tb.Fatalf("interpreted: %s\nmachine code: %s", a.err, b.err)
	}
	for i := range a.mem {
		if !bytes.Equal(a.mem[i], b.mem[i]) {
			at := 0
			for a.mem[i][at] == b.mem[i][at] {
				at++
			}
			at &^= 7
			tb.Fatalf("mapping %d, byte %d: interpreted %x, machine code %x", i, at, a.mem[i][at:min(at+8, len(a.mem[i]))], b.mem[i][at:min(at+8, len(a.mem[i]))])
		}
	}
	if a.issued != b.issued || !slices.Equal(a.touched, b.touched) {
		tb.Fatalf("interpreted: %d instructions, touched %v\nmachine code: %d, %v", a.issued, a.touched, b.issued, b.touched)
	}
}

// letters are the registers of the random programs, by their letter in templates. A capital letter is a result.
var letters = map[byte]struct {
	name  string
	count int
}{
	'r': {"%r", 8}, 'l': {"%l", 6}, 'f': {"%f", 7}, 'd': {"%d", 5}, 'h': {"%h", 5}, 'p': {"%p", 5},
}

// templates are the instructions of random programs. A word of a single letter stands for a register.
var templates = append(listForms(), strings.Split(strings.TrimSpace(`
add.u32 R, r, r
sub.s32 R, r, r
mul.lo.u32 R, r, r
mul.hi.u32 R, r, r
mul.hi.s32 R, r, r
mad.lo.s32 R, r, r, r
mad.hi.u32 R, r, r, r
mad.hi.s32 R, r, r, r
mul.wide.u32 L, r, r
mul.wide.s32 L, r, r
mad.wide.u32 L, r, r, l
mad.wide.s32 L, r, r, l
mul.wide.u16 R, h, h
mul.wide.s16 R, h, h
div.u32 R, r, r
div.s32 R, r, r
rem.u32 R, r, r
rem.s32 R, r, r
div.u64 L, l, l
and.b32 R, r, r
or.b32 R, r, r
xor.b32 R, r, r
not.b32 R, r
cnot.b32 R, r
neg.s32 R, r
abs.s32 R, r
min.u32 R, r, r
max.u32 R, r, r
min.s32 R, r, r
max.s32 R, r, r
shl.b32 R, r, r
shr.u32 R, r, r
shr.s32 R, r, r
shl.b32 R, r, 5
shr.u32 R, r, 29
shf.l.wrap.b32 R, r, r, r
lop3.b32 R, r, r, r, 0x96
lop3.b32 R, r, r, r, 0x1b
lop3.b32 R, r, r, r, 0xea
bfe.u32 R, r, r, r
bfe.s32 R, r, r, r
bfe.u32 R, r, 3, 7
bfi.b32 R, r, r, r, r
popc.b32 R, r
clz.b32 R, r
brev.b32 R, r
prmt.b32 R, r, r, r
sad.u32 R, r, r, r
sad.s32 R, r, r, r
vabsdiff4.u32.u32.u32.add R, r, r, r
selp.b32 R, r, r, p
slct.b32.s32 R, r, r, r
add.u64 L, l, l
sub.s64 L, l, l
mul.lo.u64 L, l, l
mul.hi.u64 L, l, l
mad.lo.s64 L, l, l, l
and.b64 L, l, l
or.b64 L, l, l
xor.b64 L, l, l
not.b64 L, l
neg.s64 L, l
abs.s64 L, l
min.u64 L, l, l
max.u64 L, l, l
min.s64 L, l, l
max.s64 L, l, l
shl.b64 L, l, r
shr.u64 L, l, r
shr.s64 L, l, r
shl.b64 L, l, 3
selp.b64 L, l, l, p
popc.b64 R, l
clz.b64 R, l
add.cc.u32 R, r, r
addc.u32 R, r, r
add.u16 H, h, h
sub.u16 H, h, h
mul.lo.u16 H, h, h
mad.lo.u16 H, h, h, h
and.b16 H, h, h
or.b16 H, h, h
xor.b16 H, h, h
not.b16 H, h
shl.b16 H, h, r
shr.u16 H, h, r
shr.s16 H, h, r
min.s16 H, h, h
selp.b16 H, h, h, p
mov.b32 R, r
mov.b64 L, l
mov.b16 H, h
mov.b32 R, {h, h}
mov.b32 {H, H}, r
mov.b64 L, {r, r}
mov.b64 {R, R}, l
mov.b64 {_, R}, l
mov.b32 R, f
mov.b32 F, r
mov.b64 L, d
mov.b64 D, l
mov.pred P, p
and.pred P, p, p
or.pred P, p, p
xor.pred P, p, p
not.pred P, p
add.f32 F, f, f
sub.f32 F, f, f
mul.f32 F, f, f
div.rn.f32 F, f, f
fma.rn.f32 F, f, f, f
add.ftz.f32 F, f, f
sub.ftz.f32 F, f, f
mul.ftz.f32 F, f, f
div.rn.ftz.f32 F, f, f
fma.rn.ftz.f32 F, f, f, f
mad.rn.f32 F, f, f, f
add.rz.sat.f32 F, f, f
add.sat.f32 F, f, f
min.f32 F, f, f
max.f32 F, f, f
min.ftz.f32 F, f, f
max.NaN.f32 F, f, f
abs.f32 F, f
neg.f32 F, f
sqrt.rn.f32 F, f
sqrt.rn.ftz.f32 F, f
rcp.rn.f32 F, f
rcp.approx.ftz.f32 F, f
rsqrt.approx.f32 F, f
rsqrt.approx.ftz.f32 F, f
ex2.approx.f32 F, f
ex2.approx.ftz.f32 F, f
lg2.approx.f32 F, f
lg2.approx.ftz.f32 F, f
sin.approx.f32 F, f
sin.approx.ftz.f32 F, f
cos.approx.f32 F, f
cos.approx.ftz.f32 F, f
add.f64 D, d, d
sub.f64 D, d, d
mul.f64 D, d, d
div.rn.f64 D, d, d
fma.rn.f64 D, d, d, d
min.f64 D, d, d
max.f64 D, d, d
abs.f64 D, d
neg.f64 D, d
sqrt.rn.f64 D, d
rcp.rn.f64 D, d
cvt.sat.u8.s32 R, r
cvt.f64.f32 D, f
cvt.rn.f32.f64 F, d
cvt.sat.f32.f32 F, f
cvt.rzi.s32.f32 R, f
cvt.rzi.u32.f32 R, f
cvt.rni.s32.f32 R, f
cvt.rmi.s32.f32 R, f
cvt.rpi.s32.f32 R, f
cvt.rzi.s32.f64 R, d
cvt.rzi.u64.f64 L, d
cvt.f32.f16 F, h
cvt.rn.f16.f32 H, f
cvt.f32.bf16 F, h
cvt.rn.bf16.f32 H, f
setp.lt.and.s32 P, r, r, p
mov.u32 R, %tid.x
mov.u32 R, %ctaid.x
mov.u32 R, %ntid.x
mov.u32 R, %nctaid.y
mov.u32 R, %laneid
mov.u32 R, %warpid
mov.u32 R, %lanemask_lt
mov.u32 R, %clock
activemask.b32 R
ld.param.u32 R, [n]
ld.param.s8 R, [n]
ld.param.u16 H, [n]
ld.param.u8 R, [n]
ld.param.s16 H, [n]
ld.param.f32 F, [n]
call (R), framed, (r, r)
ld.param.u64 L, [n]
ld.volatile.shared.u32 R, [sm+4]
add.u32 R, r, 0x80000001
add.f32 F, f, 0f3FC00000
shfl.sync.bfly.b32 R, r, 1, 31, -1
shfl.sync.bfly.b32 R|P, r, r, r, -1
shfl.sync.up.b32 R|P, r, r, r, -1
shfl.sync.up.b32 R, r, 3, 0, -1
shfl.sync.down.b32 R|P, r, r, r, %tile
shfl.sync.idx.b32 R|P, r, r, r, -1
shfl.sync.idx.b32 R, r, r, 0x181f, %tile
vote.sync.all.pred P, p, -1
vote.sync.any.pred P, p, -1
vote.sync.uni.pred P, !p, -1
vote.sync.ballot.b32 R, p, -1
vote.sync.ballot.b32 R, !p, %tile
vote.sync.any.pred P, p, %tile
vote.sync.all.pred P, p, %all
bar.warp.sync %tile
`), "\n")...)

// listForms lists the comparisons and conversions of all types, and the arithmetic with all roundings but the usual
// rounding.
func listForms() (out []string) {
	letter := map[string]string{"8": "r", "16": "h", "32": "r", "64": "l"}
	types := []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"}
	for _, t := range types {
		for _, d := range types {
			out = append(out, fmt.Sprintf("cvt.%s.%s %s, %s", d, t, strings.ToUpper(letter[d[1:]]), letter[t[1:]]))
		}
		out = append(out, fmt.Sprintf("cvt.rn.f32.%s F, %s", t, letter[t[1:]]), fmt.Sprintf("cvt.rn.f64.%s D, %s", t, letter[t[1:]]))
		for _, c := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
			if l := letter[t[1:]]; t[1:] != "8" {
				out = append(out, fmt.Sprintf("setp.%s.%s P, %s, %s", c, t, l, l))
			}
		}
	}
	for _, c := range []string{"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"} {
		out = append(out, "setp."+c+".f32 P, f, f", "setp."+c+".ftz.f32 P, f, f", "setp."+c+".f64 P, d, d")
	}
	for _, round := range []string{"rm", "rp", "rz"} {
		for _, o := range []struct {
			name     string
			operands int
		}{{"add", 2}, {"sub", 2}, {"mul", 2}, {"div", 2}, {"fma", 3}, {"sqrt", 1}, {"rcp", 1}} {
			for _, t := range []string{"f32", "ftz.f32", "f64"} {
				letter := map[string]string{"2": "f", "4": "d"}[t[len(t)-1:]]
				out = append(out, o.name+"."+round+"."+t+" "+strings.ToUpper(letter)+strings.Repeat(", "+letter, o.operands))
			}
		}
	}
	return out
}

// nativeProgram is a random program of all operations that machine code has.
type nativeProgram struct {
	r    *rand.Rand
	text strings.Builder
	n    int  // labels and temporary registers
	wild bool // some addresses are outside of all memory
}

func (p *nativeProgram) register(letter byte) string {
	l := letters[letter]
	return fmt.Sprint(l.name, p.r.IntN(l.count))
}

// fillTemplate puts registers in the place of a template's letters.
func (p *nativeProgram) fillTemplate(template string) string {
	op, args, _ := strings.Cut(template, " ") // ( and ) stand about the operands of calls
	var out strings.Builder
	for i := 0; i < len(args); i++ {
		c := args[i]
		_, known := letters[c|0x20]
		alone := (i == 0 || strings.IndexByte(" {(|!", args[i-1]) >= 0) && (i+1 == len(args) || strings.IndexByte(",})|", args[i+1]) >= 0)
		if known && alone {
			out.WriteString(p.register(c | 0x20))
		} else {
			out.WriteByte(c)
		}
	}
	return op + " " + out.String()
}

func (p *nativeProgram) emitLine(format string, args ...any) {
	p.text.WriteByte('\t')
	if p.r.IntN(6) == 0 {
		fmt.Fprintf(&p.text, "@%s%s ", []string{"", "!"}[p.r.IntN(2)], p.register('p'))
	}
	fmt.Fprintf(&p.text, format+";\n", args...)
}

// randomAddress emits the address of an element of a buffer of 4096 bytes and returns the register. Lanes' elements follow
// each other, are the same, or are anywhere.
func (p *nativeProgram) randomAddress(space string, size int) string {
	p.n++
	word, long := fmt.Sprintf("%%aw%d", p.n), fmt.Sprintf("%%al%d", p.n)
	mask := 4095 &^ (size - 1)
	if p.wild && p.r.IntN(40) == 0 {
		mask = 0x1fff &^ (size/2 | p.r.IntN(2))
	}
	switch p.r.IntN(4) {
	case 0:
		fmt.Fprintf(&p.text, "\tmov.u32 %s, %%tid.x;\n\tmul.lo.u32 %s, %s, %d;\n\tadd.u32 %s, %s, %d;\n", word, word, word, size, word, word, size*p.r.IntN(9))
	case 1:
		fmt.Fprintf(&p.text, "\tmov.u32 %s, %d;\n", word, p.r.IntN(4096))
	case 2:
		fmt.Fprintf(&p.text, "\tmov.u32 %s, %%tid.x;\n\tshr.u32 %s, %s, 2;\n\tmul.lo.u32 %s, %s, %d;\n", word, word, word, word, word, size)
	default:
		fmt.Fprintf(&p.text, "\tmov.u32 %s, %s;\n", word, p.register('r'))
	}
	fmt.Fprintf(&p.text, "\tand.b32 %s, %s, %d;\n", word, word, mask)
	if space != "global" {
		if space == "shared" {
			fmt.Fprintf(&p.text, "\tadd.u32 %s, %s, sm;\n", word, word)
		} else {
			fmt.Fprintf(&p.text, "\tand.b32 %s, %s, %d;\n\tadd.u32 %s, %s, lm;\n", word, word, 127&^(size-1), word, word)
		}
		return word
	}
	base := "%in"
	if p.r.IntN(2) == 0 {
		base = "%inout"
	}
	fmt.Fprintf(&p.text, "\tmad.wide.u32 %s, %s, 1, %s;\n", long, word, base)
	return long
}

// emitAccess emits a load or a store.
func (p *nativeProgram) emitAccess() {
	space := []string{"global", "shared", "local"}[p.r.IntN(3)]
	kinds := []struct {
		typ    string
		size   int
		letter byte
	}{{"u8", 1, 'r'}, {"s8", 1, 'r'}, {"u16", 2, 'h'}, {"s16", 2, 'h'}, {"s16", 2, 'r'}, {"u32", 4, 'r'}, {"f32", 4, 'f'}, {"u64", 8, 'l'}, {"f64", 8, 'd'}}
	k := kinds[p.r.IntN(len(kinds))]
	n := 1
	if k.size >= 4 {
		n = []int{1, 1, 2, 4}[p.r.IntN(4)]
		if n*k.size > 16 {
			n = 2
		}
	} else if p.r.IntN(10) == 0 {
		n = 2
	}
	at := p.randomAddress(space, n*k.size)
	vector, regs := "", ""
	var list []string
	for range n {
		list = append(list, p.register(k.letter))
	}
	regs = list[0]
	if n > 1 {
		vector, regs = fmt.Sprintf(".v%d", n), "{"+strings.Join(list, ", ")+"}"
		slices.Sort(list)
	}
	where := "." + space
	if space == "global" && p.r.IntN(5) == 0 {
		where = ""
	}
	if p.r.IntN(2) == 0 && (space != "global" || !strings.Contains(p.lastBase(), "%in;")) {
		p.emitLine("st%s%s.%s [%s], %s", where, vector, k.typ, at, regs)
		return
	}
	if n > 1 && len(slices.Compact(list)) < n {
		return
	}
	p.emitLine("ld%s%s.%s %s, [%s]", where, vector, k.typ, regs, at)
}

// emitUpdate emits an atomic operation.
func (p *nativeProgram) emitUpdate() {
	space := []string{"global", "shared"}[p.r.IntN(2)]
	at := p.randomAddress(space, 4)
	if strings.Contains(p.lastBase(), "%in;") {
		return
	}
	if space == "global" && p.r.IntN(4) == 0 {
		space = ""
	} else {
		space = "." + space
	}
	op := []string{"add.u32", "and.b32", "or.b32", "xor.b32", "exch.b32", "min.u32", "max.u32", "min.s32", "max.s32", "cas.b32", "inc.u32"}[p.r.IntN(11)]
	value := p.register('r')
	if op == "cas.b32" {
		value += ", " + p.register('r')
	}
	old := p.register('r')
	if p.r.IntN(2) == 0 {
		if op != "cas.b32" && op != "exch.b32" {
			p.emitLine("red%s.%s [%s], %s", space, op, at, value)
			return
		}
		old = "_"
	}
	p.emitLine("atom%s.%s %s, [%s], %s", space, op, old, at, value)
}

// copyAsync emits a copy from global to shared memory.
func (p *nativeProgram) copyAsync() {
	size := 4 << p.r.IntN(3)
	to := p.randomAddress("shared", size)
	from := p.randomAddress("global", size)
	offset := size * p.r.IntN(3) / 2 * p.r.IntN(2)
	if !p.wild {
		offset &^= size - 1
	}
	more := ""
	if p.r.IntN(8) == 0 {
		more = fmt.Sprintf(", %d", p.r.IntN(size+1))
	}
	p.emitLine("cp.async.ca.shared.global [%s+%d], [%s], %d%s", to, offset, from, size, more)
}

// lastBase is the last line, which has the buffer of a global access.
func (p *nativeProgram) lastBase() string {
	lines := strings.Split(strings.TrimSpace(p.text.String()), "\n")
	return lines[len(lines)-1]
}

// emitStatements emits some statements, with branches and loops among them.
func (p *nativeProgram) emitStatements(n, depth int) {
	for range n {
		switch k := p.r.IntN(15); {
		case k == 0 && depth < 3:
			p.n++
			label := p.n
			fmt.Fprintf(&p.text, "\t@%s bra L%d;\n", p.register('p'), label)
			p.emitStatements(1+p.r.IntN(6), depth+1)
			if p.r.IntN(3) == 0 { // with an else
				fmt.Fprintf(&p.text, "\tbra M%d;\nL%d:\n", label, label)
				p.emitStatements(1+p.r.IntN(6), depth+1)
				fmt.Fprintf(&p.text, "M%d:\n", label)
				continue
			}
			fmt.Fprintf(&p.text, "L%d:\n", label)
		case k == 1 && depth < 2:
			p.n++
			label, count := p.n, fmt.Sprintf("%%c%d", p.n)
			fmt.Fprintf(&p.text, "\tand.b32 %s, %s, 3;\nL%d:\n", count, p.register('r'), label)
			p.emitStatements(1+p.r.IntN(8), depth+1)
			if p.r.IntN(4) == 0 { // some lanes leave the loop
				fmt.Fprintf(&p.text, "\t@%s bra M%d;\n", p.register('p'), label)
				p.emitStatements(1+p.r.IntN(3), depth+1)
			}
			fmt.Fprintf(&p.text, "\tsetp.ne.u32 %%q%d, %s, 0;\n\tsub.u32 %s, %s, 1;\n\t@%%q%d bra L%d;\n", label, count, count, count, label, label)
			fmt.Fprintf(&p.text, "M%d:\n", label)
		case k == 2 && depth == 0 && p.r.IntN(3) == 0:
			p.emitBarriers()
		case k == 3 && p.r.IntN(8) == 0:
			fmt.Fprintf(&p.text, "\t@%s bra END;\n", p.register('p'))
		case k == 5 && p.r.IntN(3) == 0:
			p.emitRow()
		case k < 6:
			p.emitAccess()
		case k == 6 && p.r.IntN(3) == 0:
			p.copyAsync()
		case k == 6:
			p.emitUpdate()
		default:
			t := templates[p.r.IntN(len(templates))]
			meets := strings.Contains(t, ".sync")
			if meets && depth > 0 {
				continue
			}
			if meets || strings.Contains(t, "volatile") {
				p.text.WriteString("\t" + p.fillTemplate(t) + ";\n")
				continue
			}
			p.emitLine("%s", p.fillTemplate(t))
		}
	}
}

// emitBarriers emits a barrier, or a loop with some.
func (p *nativeProgram) emitBarriers() {
	if p.r.IntN(2) == 0 {
		p.text.WriteString("\tbar.sync 0;\n")
		return
	}
	p.n++
	label := p.n
	fmt.Fprintf(&p.text, "\tmov.u32 %%c%d, %d;\nL%d:\n", label, 2+p.r.IntN(3), label)
	for range 1 + p.r.IntN(3) {
		p.emitStatements(p.r.IntN(5), 2)
		p.text.WriteString("\t" + []string{"bar.sync 0", "bar.sync 0", "barrier.sync 1", "bar.red.popc.u32 %r7, 0, %p1"}[p.r.IntN(4)] + ";\n")
	}
	fmt.Fprintf(&p.text, "\tsub.u32 %%c%d, %%c%d, 1;\n\tsetp.ne.u32 %%q%d, %%c%d, 0;\n\t@%%q%d bra L%d;\n", label, label, label, label, label, label)
}

// emitRow emits loads and arithmetic by a single address in shared memory, as loops over tiles have them.
func (p *nativeProgram) emitRow() {
	at := p.randomAddress("shared", 4)
	for range 3 + p.r.IntN(4) {
		offset := 4 * p.r.IntN(5)
		if p.wild && p.r.IntN(12) == 0 {
			offset = 4 * (p.r.IntN(2200) - 1100)
		}
		kind := [][2]string{{"u32", p.register('r')}, {"f32", p.register('f')}, {"f32", p.register('f')}}[p.r.IntN(3)]
		if p.r.IntN(12) == 0 {
			p.emitLine("ld.shared.%s %s, [%s+%d]", kind[0], kind[1], at, offset)
			continue
		}
		fmt.Fprintf(&p.text, "\tld.shared.%s %s, [%s+%d];\n", kind[0], kind[1], at, offset)
		t := p.fillTemplate([]string{"fma.rn.f32 F, f, f, f", "add.f32 F, f, f", "mul.ftz.f32 F, f, f", "fma.rn.ftz.f32 F, f, f, f", "sub.f32 F, f, f", "max.f32 F, f, f"}[p.r.IntN(6)])
		switch p.r.IntN(8) {
		case 0:
			p.emitLine("%s", t)
		case 1:
			fmt.Fprintf(&p.text, "\tst.shared.f32 [%s+%d], %s;\n", at, 4*p.r.IntN(5), p.register('f'))
		default:
			fmt.Fprintf(&p.text, "\t%s;\n", t)
		}
	}
}

// buildProgram returns the program's text. Each thread loads its registers, and stores them in the end.
func (p *nativeProgram) buildProgram(n int) string {
	p.emitStatements(n, 0)
	body := p.text.String()
	var s strings.Builder
	s.WriteString(header + ".func (.reg .b32 %o) framed(.reg .b32 %u, .reg .b32 %v)\n{\n" +
		"\t.local .align 8 .b8 a[16]; .reg .b32 %at; .reg .pred %p;\n" +
		"\tmov.u32 %at, a; st.local.u32 [%at+4], %u; st.local.u32 [%at+8], %v; setp.lt.u32 %p, %u, %v;\n" +
		"\t@%p st.local.u32 [%at+8], %u; ld.local.u32 %o, [%at+8]; add.u32 %o, %o, %at; ret;\n}\n" +
		".visible .entry k(.param .u64 in, .param .u64 inout, .param .u64 out, .param .u64 n)\n{\n")
	fmt.Fprintf(&s, "\t.reg .b32 %%r<8>, %%i, %%tile, %%all, %%aw<%d>, %%c<%d>; .reg .b64 %%l<6>, %%in, %%inout, %%at, %%out, %%al<%d>;\n", p.n+2, p.n+2, p.n+2)
	fmt.Fprintf(&s, "\t.reg .f32 %%f<7>; .reg .f64 %%d<5>; .reg .b16 %%h<5>; .reg .pred %%p<5>, %%q<%d>;\n", p.n+2)
	s.WriteString("\t.shared .align 16 .b8 sm[4112]; .local .align 16 .b8 lm[144];\n")
	s.WriteString("\tld.param.u64 %in, [in]; ld.param.u64 %inout, [inout]; ld.param.u64 %out, [out];\n")
	s.WriteString("\tmov.u32 %i, %ctaid.x; mov.u32 %r0, %ntid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %i, %i, %r0, %r1;\n")
	s.WriteString("\tmov.u32 %tile, %laneid; and.b32 %tile, %tile, 24; shl.b32 %tile, 255, %tile; sub.u32 %all, 0, 1;\n")
	s.WriteString("\tand.b32 %r2, %i, 31; mul.wide.u32 %at, %r2, 128; add.u64 %at, %at, %in; mul.wide.u32 %l0, %i, 256; add.u64 %out, %out, %l0;\n")
	each := func(f func(letter byte, i, size, offset int)) {
		offset := 0
		for _, l := range []struct {
			letter byte
			size   int
		}{{'l', 8}, {'d', 8}, {'r', 4}, {'f', 4}, {'h', 2}} {
			for i := range letters[l.letter].count {
				f(l.letter, i, l.size, offset)
				offset += l.size
			}
		}
	}
	each(func(letter byte, i, size, offset int) {
		fmt.Fprintf(&s, "\tld.global.b%d %s%d, [%%at+%d];\n", 8*size, letters[letter].name, i, offset%120&^(size-1))
	})
	for i := range letters['p'].count {
		fmt.Fprintf(&s, "\tand.b32 %%aw0, %%r%d, %d; setp.ne.u32 %%p%d, %%aw0, 0;\n", i, 1<<i, i)
	}
	s.WriteString(body + "END:\n")
	each(func(letter byte, i, size, offset int) {
		fmt.Fprintf(&s, "\tst.global.b%d [%%out+%d], %s%d;\n", 8*size, offset, letters[letter].name, i)
	})
	for i := range letters['p'].count {
		fmt.Fprintf(&s, "\tselp.u32 %%aw0, 1, 0, %%p%d; st.global.u32 [%%out+%d], %%aw0;\n", i, 200+4*i)
	}
	s.WriteString("\tret;\n}\n")
	return s.String()
}

// operandBytes fills a buffer with numbers at which operations differ.
func operandBytes(r *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		if len(b)%8 == 0 && r.IntN(8) == 0 {
			v := []float64{0, 1, math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1.8p-538, 0x1p512, 1 + 0x1p-52, 3}[r.IntN(10)]
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v)|uint64(r.IntN(2))<<63)
			continue
		}
		switch r.IntN(8) {
		case 0:
			b = binary.LittleEndian.AppendUint32(b, uint32(r.IntN(40)))
		case 1:
			b = binary.LittleEndian.AppendUint32(b, []uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00001, 0xffa00002, 1, 0x807fffff, 0x3f800000, 0xbf800000, 0x7fffffff, 0x7f7fffff, 0x4f000000}[r.IntN(13)])
		case 2:
			b = binary.LittleEndian.AppendUint32(b, 0x3f000000+r.Uint32N(1<<25)|r.Uint32()&(1<<31))
		default:
			b = binary.LittleEndian.AppendUint32(b, r.Uint32())
		}
	}
	return b[:n]
}

// runNativeProgram runs a random program by the interpreter and as machine code.
func runNativeProgram(tb testing.TB, seed uint64, statements int) (failed bool) {
	tb.Helper()
	p := &nativeProgram{r: rand.New(rand.NewPCG(seed, 77))}
	p.wild = p.r.IntN(3) == 0
	text := p.buildProgram(statements)
	threads := uint32(1 + p.r.IntN(100))
	if p.r.IntN(2) == 0 {
		threads = 32 * uint32(1+p.r.IntN(3))
	}
	grid := uint32(1 + p.r.IntN(5))
	defer func() {
		if tb.Failed() {
			tb.Logf("program %d, %d blocks of %d threads:\n%s", seed, grid, threads, text)
		}
	}()
	m := bootMachine(tb, text)
	m.mapAt(addrA, operandBytes(p.r, 4096))
	m.mapAt(addrB, operandBytes(p.r, 4096))
	m.mapAt(addrC, make([]byte, 256*threads*grid))
	m.cfg.Workers = 1 // blocks share a buffer
	err := m.launchKernel("k", Dim3{grid, 1, 1}, Dim3{threads, 1, 1}, addrA, addrB, addrC, p.r.Uint64())
	return err != nil
}

// TestNativePrograms: machine code and the interpreter have the same effects, in all that can be seen.
func TestNativePrograms(t *testing.T) {
	if err := native.Check(); err != nil {
		t.Skip(err)
	}
	programs := 400
	if testing.Short() {
		programs = 60
	}
	failed := 0
	for seed := range uint64(programs) {
		if runNativeProgram(t, seed, 10+int(seed%90)) {
			failed++
		}
	}
	if failed == 0 || failed > programs/2 {
		t.Errorf("%d of %d programs ended with a fault; some should", failed, programs)
	}
}

// FuzzNative is TestNativePrograms with other programs.
func FuzzNative(f *testing.F) {
	if err := native.Check(); err != nil {
		f.Skip(err)
	}
	f.Add(uint64(1), uint8(50))
	f.Add(uint64(201), uint8(186)) // all threads behind the first warp exit in the turn in which the first comes to a barrier
	f.Fuzz(func(t *testing.T, seed uint64, statements uint8) { runNativeProgram(t, seed, int(statements)) })
}

// TestNativeTemplates: the random programs have all operations of which machine code is made.
func TestNativeTemplates(t *testing.T) {
	found := map[string]bool{}
	note := func(text string) {
		k, err := bootMachine(t, text).p.Kernel("k")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range k.machine.codes {
			for _, in := range c.plan {
				found[in.Key] = true
			}
		}
	}
	p := &nativeProgram{r: rand.New(rand.NewPCG(3, 4))}
	for _, template := range templates {
		p.text.WriteString("\t" + p.fillTemplate(template) + ";\n")
	}
	for range 1000 {
		p.emitAccess()
		p.emitUpdate()
		p.copyAsync()
	}
	note(p.buildProgram(0))
	for _, key := range native.Operations() {
		if !found[key] {
			t.Errorf("no random program has %s", key)
		}
	}
}

// TestNativeOperations: each operation alone, on all pairs of difficult operands, in warps of which all lanes run, or only some.
func TestNativeOperations(t *testing.T) {
	if err := native.Check(); err != nil {
		t.Skip(err)
	}
	for i, template := range templates {
		t.Run(template, func(t *testing.T) {
			p := &nativeProgram{r: rand.New(rand.NewPCG(uint64(i), 5))}
			for range 12 {
				p.text.WriteString("\t" + p.fillTemplate(template) + ";\n")
			}
			text := p.buildProgram(0)
			rounds := []uint32{45, 32, 32, 32, 32}
			if testing.Short() {
				rounds = rounds[i%2 : i%2+1] // some lanes in half of the operations, all lanes in the rest
			}
			for round, threads := range rounds {
				m := bootMachine(t, text)
				r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				m.mapAt(addrA, operandBytes(r, 4096))
				m.mapAt(addrB, operandBytes(r, 4096))
				m.mapAt(addrC, make([]byte, 256*threads))
				m.runKernel("k", Dim3{1, 1, 1}, Dim3{threads, 1, 1}, addrA, addrB, addrC, 0x8877665544332211)
			}
		})
	}
}

// TestNativeAndCollector: Go's collector stops and scans the goroutines that run machine code, and a launch that never ends
// by itself is ended.
func TestNativeAndCollector(t *testing.T) {
	if err := native.Check(); err != nil {
		t.Skip(err)
	}
	m := bootMachine(t, header+`.visible .entry k(.param .u64 out) {
	.reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p;
	ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
L:	mad.lo.u32 %r1, %r1, 3, 1; st.global.u32 [%rd1], %r1; bra L; }`)
	m.mapAt(testOut, make([]byte, 4*64))
	k, err := m.p.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- k.Launch(ctx, Config{
			Grid: Dim3{1, 1, 1}, Block: Dim3{64, 1, 1}, Memory: &m.mem, Params: binary.LittleEndian.AppendUint64(nil, testOut),
		})
	}()
	for range 30 {
		runtime.GC()
	}
	select {
	case err := <-ended:
		t.Fatalf("the endless launch ended before it was cancelled: %v", err)
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestStoredCode: code that a store has is not compiled again; the code of another function, or of a function that
// differs in a single field, is not taken for it; and damaged code is compiled again.
func TestStoredCode(t *testing.T) {
	if err := native.Check(); err != nil {
		t.Skip(err)
	}
	planOf := func(text string) []native.Inst {
		k, err := bootMachine(t, text).p.Kernel("k")
		if err != nil {
			t.Fatal(err)
		}
		return k.machine.codes[0].plan
	}
	const body = ".entry k(.param .u64 p) { .reg .b64 %a<3>; .reg .b32 %r<4>; ld.param.u64 %a1, [p]; ld.global.u32 %r1, [%a1]; " +
		"add.u32 %r2, %r1, 7; st.global.u32 [%a1+%d], %r2; ret; }"
	plan := planOf(header + strings.ReplaceAll(body, "%d", "4"))
	s := newCodeStore()
	compile := func(plan []native.Inst) *native.Code {
		c, err := native.CompileStored(plan, s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, again := compile(plan), compile(plan)
	if s.taken != 1 || len(s.saved) != 1 || first.Size() != again.Size() || first.NeedsZeros() != again.NeedsZeros() {
		t.Errorf("the second time, code was taken %d times from %d; want once from 1", s.taken, len(s.saved))
	}
	for i := range plan {
		for name, change := range map[string]func(in *native.Inst){
			"Key": func(in *native.Inst) { in.Key += "x" }, "D": func(in *native.Inst) { in.D += 4 }, "E": func(in *native.Inst) { in.E += 4 },
			"A": func(in *native.Inst) { in.A += 4 }, "B": func(in *native.Inst) { in.B += 4 }, "C": func(in *native.Inst) { in.C += 4 },
			"Guard": func(in *native.Inst) { in.Guard += 2 }, "Imm": func(in *native.Inst) { in.Imm++ }, "Site": func(in *native.Inst) { in.Site++ },
			"Target": func(in *native.Inst) { in.Target++ }, "Meet": func(in *native.Inst) { in.Meet++ }, "Stops": func(in *native.Inst) { in.Stops = !in.Stops },
			"Flow": func(in *native.Inst) { in.Flow++ }, "Size": func(in *native.Inst) { in.Size++ }, "Count": func(in *native.Inst) { in.Count++ },
			"List":     func(in *native.Inst) { in.List = append(slices.Clone(in.List), 4) },
			"Targets":  func(in *native.Inst) { in.Targets = append(slices.Clone(in.Targets), 0) },
			"Accesses": func(in *native.Inst) { in.Accesses = append(slices.Clone(in.Accesses), native.Access{}) },
		} {
			other := slices.Clone(plan)
			change(&other[i])
			if native.HashInsts(other) == native.HashInsts(plan) {
				t.Errorf("instruction %d with another %s has the same key", i, name)
			}
		}
	}
	for key, data := range s.saved {
		for _, n := range []int{0, 1, len(data) / 2, len(data) - 1} {
			s.saved[key] = data[:n]
			if got := compile(plan); got.Size() != first.Size() || !bytes.Equal(s.saved[key], data) {
				t.Errorf("of %d bytes of %d, code of %d bytes was made, want %d", n, len(data), got.Size(), first.Size())
			}
		}
	}
}
