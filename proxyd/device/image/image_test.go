// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

const text = ".version 8.0\n.target sm_80\n.address_size 64\n"

// code describes an entry of a fatbin that a test makes.
type code struct {
	kind   Kind
	arch   uint32
	flags  uint64
	data   []byte
	size   uint64 // decompressed
	header uint32 // 0: 64
}

func makeFatbin(entries ...code) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, e := range entries {
		n := max(e.header, sizeEntry)
		h := make([]byte, n)
		padded := (len(e.data) + 7) &^ 7
		le.PutUint16(h, uint16(e.kind))
		le.PutUint16(h[2:], 0x101)
		le.PutUint32(h[4:], n)
		le.PutUint32(h[8:], uint32(padded))
		le.PutUint32(h[16:], uint32(len(e.data)))
		le.PutUint16(h[26:], 8)
		le.PutUint32(h[28:], e.arch)
		le.PutUint64(h[40:], e.flags|0x11)
		le.PutUint64(h[56:], e.size)
		body = append(append(body, h...), e.data...)
		body = append(body, make([]byte, padded-len(e.data))...)
	}
	h := le.AppendUint32(nil, magicFatbin)
	h = le.AppendUint16(h, 1)
	h = le.AppendUint16(h, sizeFatbin)
	return append(le.AppendUint64(h, uint64(len(body))), body...)
}

func plainCode(arch uint32, s string) code {
	return code{kind: PTX, arch: arch, data: []byte(s + "\x00")}
}

func zstdCode(arch uint32, s string) code {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return code{kind: PTX, arch: arch, flags: flagZstd, data: w.EncodeAll([]byte(s), nil), size: uint64(len(s))}
}

// lz4Code writes each run of equal bytes as a literal and a match with itself: the simplest block that has all
// kinds of lengths.
func lz4Code(arch uint32, s string) code {
	var b []byte
	length := func(n int) {
		for n -= 15; n >= 0; n -= 255 {
			b = append(b, byte(min(n, 255)))
			if n < 255 {
				break
			}
		}
	}
	var lits []byte
	flush := func(match int) {
		b = append(b, byte(min(len(lits), 15))<<4|byte(min(max(match-4, 0), 15)))
		length(len(lits))
		b = append(b, lits...)
		if match > 0 {
			b = append(b, 1, 0)
			length(match - 4)
		}
		lits = nil
	}
	for i := 0; i < len(s); {
		n := 1
		for i+n < len(s) && s[i+n] == s[i] {
			n++
		}
		if lits = append(lits, s[i]); n > 5 {
			flush(n - 1)
			i += n
			continue
		}
		i++
	}
	flush(0)
	return code{kind: PTX, arch: arch, flags: flagLZ4, data: b, size: uint64(len(s))}
}

func cubin(arch uint32) code { return code{kind: ELF, arch: arch, data: makeELF()} }

// makeELF makes a cubin of two sections. The second section has no bytes in the file, and the section table is
// not at the end.
func makeELF() []byte {
	b := make([]byte, 64+2*64+100)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[18:], 190)
	le.PutUint64(b[40:], 64)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], 2)
	le.PutUint32(b[64+4:], 1)
	le.PutUint64(b[64+24:], 192)
	le.PutUint64(b[64+32:], 100)
	le.PutUint32(b[128+4:], 8)
	le.PutUint64(b[128+24:], 192)
	le.PutUint64(b[128+32:], 1<<40)
	return b
}

func makeBundle(parts ...[]byte) []byte {
	b, err := Bundle(parts)
	if err != nil {
		panic(err)
	}
	return b
}

var long = text + strings.Repeat("/", 40) + strings.Repeat(" ", 5000) + strings.Repeat("x", 19+255) + "abcdefghijklmnopqrstuvw\n"

func TestChoose(t *testing.T) {
	t70, t80 := text+"// 70", text+"// 80"
	for _, tc := range []struct {
		name string
		data []byte
		want []string
		err  error
	}{
		{"text", []byte(text), []string{text}, nil},
		{"text with NUL", []byte(text + "\x00rest"), []string{text}, nil},
		{"old text", []byte(".version 1.4\n.target sm_20, map_f64_to_f32\n"), []string{".version 1.4\n.target sm_20, map_f64_to_f32\n"}, nil},
		{"one", makeFatbin(plainCode(52, text)), []string{text}, nil},
		{"newest that fits", makeFatbin(plainCode(70, t70), plainCode(80, t80), plainCode(90, text)), []string{t80}, nil},
		{"order does not matter", makeFatbin(plainCode(90, text), plainCode(80, t80), plainCode(70, t70)), []string{t80}, nil},
		{"beside machine code", makeFatbin(cubin(80), plainCode(70, t70), cubin(90)), []string{t70}, nil},
		{"lz4", makeFatbin(lz4Code(52, long)), []string{long}, nil},
		{"zstd", makeFatbin(zstdCode(80, long)), []string{long}, nil},
		{"longer header", makeFatbin(code{kind: PTX, arch: 80, data: []byte(text), header: 80}, plainCode(70, t70)), []string{text}, nil},
		{"unknown kind", makeFatbin(code{kind: 0x40, arch: 80, data: []byte("x")}, plainCode(70, t70)), []string{t70}, nil},
		{"bundle", makeBundle([]byte(t70), makeFatbin(plainCode(80, t80))), []string{t70, t80}, nil},
		{"bundle in a bundle", makeBundle(makeBundle([]byte(t70), []byte(text)), []byte(t80)), []string{t70, text, t80}, nil},

		{"machine code", makeELF(), nil, ErrNoPTX},
		{"fatbin of machine code", makeFatbin(cubin(80)), nil, ErrNoPTX},
		{"too new", makeFatbin(plainCode(90, text)), nil, ErrNoPTX},
		{"empty fatbin", makeFatbin(), nil, ErrNoPTX},
		{"nothing", nil, nil, ErrInvalid},
		{"not an image", []byte("hello"), nil, ErrInvalid},
		{"fatbin cut short", makeFatbin(plainCode(80, text))[:60], nil, ErrInvalid},
		{"fatbin's header only", makeFatbin()[:8], nil, ErrInvalid},
		{"entry is no text", makeFatbin(plainCode(80, "x")), nil, ErrInvalid},
		{"damaged zstd", makeFatbin(code{kind: PTX, arch: 80, flags: flagZstd, data: []byte("damaged!"), size: 8}), nil, ErrInvalid},
		{"zstd of another size", makeFatbin(func() code { c := zstdCode(80, long); c.size--; return c }()), nil, ErrInvalid},
		{"huge zstd", makeFatbin(func() code { c := zstdCode(80, long); c.size = 1 << 60; return c }()), nil, ErrInvalid},
		{"huge lz4", makeFatbin(func() code { c := lz4Code(80, long); c.size = MaxSize; return c }()), nil, ErrInvalid},
		{"lz4 cut short", makeFatbin(func() code { c := lz4Code(80, long); c.data = c.data[:40]; return c }()), nil, ErrInvalid},
		{"lz4 match before the start", makeFatbin(code{kind: PTX, arch: 80, flags: flagLZ4, data: []byte{0x10, 'a', 2, 0, 0, 0, 0, 0}, size: 30}), nil, ErrInvalid},
		{"bundle cut short", makeBundle([]byte(text))[:20], nil, ErrInvalid},
		{"bundle of rubbish", makeBundle([]byte("x")), nil, ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Choose(tc.data, 80)
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || !slices.Equal(got, tc.want) {
				t.Errorf("Choose = %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

// program is a program's memory: pieces of memory by their addresses.
type program map[uint64][]byte

var errNotMapped = errors.New("not mapped")

func (m program) Read(addr uint64, p []byte) error {
	for at, b := range m {
		if addr >= at && addr-at <= uint64(len(b)) && uint64(len(p)) <= uint64(len(b))-(addr-at) {
			copy(p, b[addr-at:])
			return nil
		}
	}
	return errNotMapped
}

func makeWrapper(version uint32, data, list uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, magicWrapper)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, data)
	return binary.LittleEndian.AppendUint64(b, list)
}

func TestFetch(t *testing.T) {
	fat, other := makeFatbin(plainCode(80, text)), makeFatbin(plainCode(70, text+"// other"))
	machine := makeFatbin(cubin(80))
	page := func(s string) []byte { return append([]byte(s), make([]byte, 4096-len(s)%4096)...) }
	over := strings.Repeat(" ", 5000) + text
	list := binary.LittleEndian.AppendUint64(nil, 0x7000)
	list = binary.LittleEndian.AppendUint64(list, 0x8000)
	list = binary.LittleEndian.AppendUint64(list, 0)
	for _, tc := range []struct {
		name string
		m    program
		want []byte
		err  error
	}{
		{"text", program{0x1000: page(text)}, []byte(text), nil},
		{"text over two pages", program{0x1000: page(over)}, []byte(over), nil},
		{"fatbin", program{0x1000: fat}, fat, nil},
		{"machine code", program{0x1000: append(makeELF(), "what follows"...)}, makeELF(), nil},
		{"wrapper", program{0x1000: makeWrapper(1, 0x5000, 0), 0x5000: fat}, fat, nil},
		{"wrapper of a text", program{0x1000: makeWrapper(1, 0x5000, 0), 0x5000: page(text)}, []byte(text), nil},
		{"linked, with PTX", program{0x1000: makeWrapper(2, 0x5000, 0x6000), 0x5000: fat}, fat, nil},
		{"linked", program{0x1000: makeWrapper(2, 0x5000, 0x6000), 0x5000: machine, 0x6000: list, 0x7000: fat, 0x8000: other}, makeBundle(fat, other), nil},
		{"bundle", program{0x1000: makeBundle(fat, other)}, makeBundle(fat, other), nil},

		{"not mapped", program{}, nil, errNotMapped},
		{"wrapper of nothing", program{0x1000: makeWrapper(1, 0x5000, 0)}, nil, errNotMapped},
		{"wrapper of itself", program{0x1000: makeWrapper(1, 0x1000, 0)}, nil, ErrInvalid},
		{"list is not mapped", program{0x1000: makeWrapper(2, 0x5000, 0x6000), 0x5000: machine}, nil, errNotMapped},
		{"list of rubbish", program{0x1000: makeWrapper(2, 0x5000, 0x6000), 0x5000: machine, 0x6000: list, 0x7000: page("x")}, nil, ErrInvalid},
		{"fatbin beyond its memory", program{0x1000: fat[:40]}, nil, errNotMapped},
		{"huge fatbin", program{0x1000: binary.LittleEndian.AppendUint64(slices.Clone(fat[:8]), 1<<62)}, nil, ErrInvalid},
		{"text without end", program{0x1000: bytes.Repeat([]byte(" "), 4096)}, nil, errNotMapped},
		{"ELF of 32 bits", program{0x1000: append([]byte("\x7fELF\x01\x01"), make([]byte, 100)...)}, nil, ErrInvalid},
		{"ELF with a table beyond all", program{0x1000: func() []byte { b := makeELF(); b[46] = 1; return b }()}, nil, ErrInvalid},
		{"ELF with small sections", program{0x1000: func() []byte { b := makeELF(); b[58] = 8; return b }()}, nil, ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Fetch(tc.m, 0x1000)
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || !bytes.Equal(got, tc.want) {
				t.Errorf("Fetch = %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

func addSeeds(f *testing.F) {
	for _, b := range [][]byte{
		[]byte(text), makeELF(), makeFatbin(plainCode(52, text), cubin(80)), makeFatbin(lz4Code(80, long)), makeFatbin(zstdCode(80, long)),
		makeBundle([]byte(text), makeFatbin(plainCode(80, text))), makeWrapper(2, 0x1018, 0x1018),
	} {
		f.Add(b)
	}
}

func FuzzChoose(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		texts, err := Choose(data, 80)
		if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrNoPTX) {
			t.Errorf("Choose returned an error of no known kind: %v", err)
		}
		for _, s := range texts {
			if !strings.Contains(s, ".version") || strings.Contains(s, "\x00") {
				t.Errorf("Choose returned a text that is no PTX: %q", s)
			}
		}
	})
}

func FuzzFetch(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Fetch(program{0x1000: data}, 0x1000)
		if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, errNotMapped) {
			t.Errorf("Fetch returned an error of no known kind: %v", err)
		}
		if len(got) > MaxSize {
			t.Errorf("Fetch returned %d bytes, want at most MaxSize", len(got))
		}
	})
}

// FuzzLZ4: decodeLZ4 returns the text that the simple encoder has encoded.
func FuzzLZ4(f *testing.F) {
	f.Add(long)
	f.Add(strings.Repeat("a", 4096) + "b")
	f.Fuzz(func(t *testing.T, s string) {
		c := lz4Code(80, s)
		if got, err := decodeLZ4(c.data, c.size); err != nil || string(got) != s {
			t.Errorf("decodeLZ4 = %q, %v; want %q", got, err, s)
		}
	})
}

// decodeSlowly is decodeLZ4 for blocks without errors, byte by byte.
func decodeSlowly(src []byte) (dst []byte) {
	length := func(n int) int {
		for more := n == 15; more; src = src[1:] {
			n += int(src[0])
			more = src[0] == 255
		}
		return n
	}
	for {
		token := src[0]
		src = src[1:]
		n := length(int(token >> 4))
		dst, src = append(dst, src[:n]...), src[n:]
		if len(src) == 0 {
			return dst
		}
		back := int(binary.LittleEndian.Uint16(src))
		src = src[2:]
		for range length(int(token&15)) + 4 {
			dst = append(dst, dst[len(dst)-back])
		}
	}
}

// makeLZ4 makes a block of sequences, with matches of all lengths from 4 on at all offsets from 1 on.
func makeLZ4() []byte {
	var b []byte
	for back := 1; back <= 40; back++ {
		for match := 4; match <= 60; match += 1 + back%3 {
			b = append(b, 1<<4|byte(min(match-4, 15)), byte(back*match))
			if len(b) == 2 { // something to refer to
				b = append([]byte{0xf0, 40 - 15}, bytes.Repeat([]byte("0123456789"), 4)...)
				b[0] |= byte(min(match-4, 15))
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(back))
			if match-4 >= 15 {
				b = append(b, byte(match-4-15))
			}
		}
	}
	return append(b, 1<<4, '.')
}

// TestLZ4Matches: matches are copied that overlap with themselves, that touch, and that lie apart.
func TestLZ4Matches(t *testing.T) {
	block := makeLZ4()
	want := decodeSlowly(block)
	if got, err := decodeLZ4(block, uint64(len(want))); err != nil || !bytes.Equal(got, want) {
		t.Errorf("decodeLZ4 = %q, %v; want %q", got, err, want)
	}
	for cut := range len(want) {
		if got, err := decodeLZ4(block, uint64(cut)); err == nil && !bytes.Equal(got, want[:cut]) {
			t.Errorf("decodeLZ4 of %d bytes = %q; want %q or an error", cut, got, want[:cut])
		}
	}
}

// BenchmarkText decompresses 32 MB of PTX, which is as long as the longest text of PyTorch's library, into literals
// of 6 bytes and matches of 20.
func BenchmarkText(b *testing.B) {
	block, size := []byte{0x60}, 0 // all bytes are odd or text: no NUL ends the text
	block = append(block, ".version"[:6]...)
	block = append(block, 1, 0)
	for size = 10; size < 32<<20; size += 26 {
		block = append(block, 0x6f, byte(size)|1, byte(size>>8)|1, 'o', 'n', '\n', '1')
		block = binary.LittleEndian.AppendUint16(block, uint16(min(size, 1+size%4000)))
		block = append(block, 1)
	}
	block = append(block, 0x80)
	block = append(block, ".version"...)
	size += 8
	e := Entry{Kind: PTX, payload: block, flags: flagLZ4, size: uint64(size)}
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := e.Text(); err != nil {
			b.Fatal(err)
		}
	}
}
