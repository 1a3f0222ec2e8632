// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package codetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
)

var le = binary.LittleEndian

// end is the address at which testdata/image.c lets an image end.
const end = 0x200010000000

// memory is the memory of testdata/image.c: these bytes, and zeros before them in their first page. At addresses far
// away is the sanitizer's memory.
type memory struct {
	bytes []byte
	far   bool // a byte far away was wanted
}

func (m *memory) Read(addr uint64, p []byte) error {
	begin := end - uint64(len(m.bytes))
	first := begin / 4096 * 4096
	if addr < first || addr > end || uint64(len(p)) > end-addr {
		m.far = m.far || addr < first || addr > end
		return errors.New("nothing is there")
	}
	clear(p)
	if addr >= begin {
		copy(p, m.bytes[addr-begin:])
	} else if over := begin - addr; over < uint64(len(p)) {
		copy(p[over:], m.bytes)
	}
	return nil
}

// finder is the C half.
type finder struct {
	t   testing.TB
	in  io.Writer
	out io.Reader
	err *bytes.Buffer
}

func newFinder(t testing.TB) *finder {
	f := &finder{t: t, err: &bytes.Buffer{}}
	cmd := setSanitizer(exec.Command(compileProgram(t, "image", "image.c")))
	cmd.Stderr = f.err
	in, err := cmd.StdinPipe()
	if err == nil {
		f.in = in
		f.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("end of the C program: %v\n%s", err, f.err)
		}
	})
	return f
}

// findImage has C find an image.
func (f *finder) findImage(t testing.TB, data []byte) ([]byte, int32) {
	head := make([]byte, 12)
	if _, err := f.in.Write(append(le.AppendUint32(nil, uint32(len(data))), data...)); err != nil {
		t.Fatalf("write an image to the C program: %v\n%s", err, f.err)
	}
	if _, err := io.ReadFull(f.out, head); err != nil {
		t.Fatalf("read the head of the C program's answer: %v\n%s", err, f.err)
	}
	found := make([]byte, le.Uint64(head[4:]))
	if _, err := io.ReadFull(f.out, found); err != nil {
		t.Fatalf("read the image that the C program found: %v\n%s", err, f.err)
	}
	return found, int32(le.Uint32(head))
}

// compareFinders compares C with package image, which reads programs' memory too: both find the same image, if there is
// one that can be used. Of wrappers, C refuses one kind more: a wrapper with a damaged fatbin of its own.
func (f *finder) compareFinders(t testing.TB, data []byte) (found []byte, err error) {
	got, r := f.findImage(t, data)
	if r != 0 && r != 200 {
		t.Errorf("findImage: result %d, want 0 or 200", r)
	}
	m := &memory{bytes: data}
	want, err := image.Fetch(m, end-uint64(len(data)))
	damaged := r != 0 && bytes.HasPrefix(data, wrapFatbins(1, false)[:4])
	if isUseful(got) != isUseful(want) && !damaged && !m.far || isUseful(got) && !m.far && !bytes.Equal(got, want) {
		t.Errorf("%d bytes are found, result %d; want %d: %v", len(got), r, len(want), err)
	}
	if r != 0 {
		return nil, fmt.Errorf("result %d", r)
	}
	return got, nil
}

func isUseful(data []byte) bool {
	_, err := image.Choose(data, 80)
	return err == nil || errors.Is(err, image.ErrNoPTX)
}

const text = ".version 7.0\n.target sm_70\n.address_size 64\n"

// makeFatbin returns a fatbin with entries of that kind and payload.
func makeFatbin(kind uint16, payload ...string) []byte {
	var body []byte
	for _, p := range payload {
		h := make([]byte, 64)
		le.PutUint16(h, kind)
		le.PutUint32(h[4:], 64)
		le.PutUint32(h[8:], uint32(len(p)))
		le.PutUint16(h[26:], 7)
		le.PutUint32(h[28:], 70)
		body = append(append(body, h...), p...)
	}
	h := le.AppendUint32(nil, 0xBA55ED50)
	h = le.AppendUint16(le.AppendUint16(h, 1), 16)
	return append(le.AppendUint64(h, uint64(len(body))), body...)
}

// makeELF returns a file with a single section of that many bytes, or without bytes, behind its header.
func makeELF(bytes int, kind uint32) []byte {
	h := make([]byte, 64+bytes+64)
	copy(h, "\x7fELF\x02\x01\x01")
	le.PutUint64(h[40:], uint64(64+bytes))
	le.PutUint16(h[58:], 64)
	le.PutUint16(h[60:], 1)
	s := h[64+bytes:]
	le.PutUint32(s[4:], kind)
	le.PutUint64(s[24:], 64)
	le.PutUint64(s[32:], uint64(bytes))
	return h
}

// wrapFatbins lays a wrapper in front of fatbins, of which the first is the wrapper's own.
func wrapFatbins(version uint32, list bool, bins ...[]byte) []byte {
	size := 24
	if list {
		size += 8 * len(bins) // all but the first, and 0
	}
	total := size
	for _, b := range bins {
		total += len(b)
	}
	at := uint64(end - total + size)
	w := le.AppendUint32(le.AppendUint32(nil, 0x466243B1), version)
	w = le.AppendUint64(w, at)
	if list {
		w = le.AppendUint64(w, uint64(end-total+24))
	} else {
		w = le.AppendUint64(w, 0)
	}
	for i, b := range bins {
		if at += uint64(len(b)); list && i+1 < len(bins) {
			w = le.AppendUint64(w, at)
		}
	}
	if list {
		w = le.AppendUint64(w, 0)
	}
	return append(w, bytes.Join(bins, nil)...)
}

var images = []struct {
	name string
	data []byte
	want string // the image that is found: all, text, body (behind a wrapper), bundle; "" for no image
}{
	{"text", []byte(text + "\x00"), "text"},
	{"text with more behind it", []byte(text + "\x00" + "\xff\xff"), "text"},
	{"text of several pages", []byte(strings.Repeat(text, 300) + "\x00"), "text"},
	{"text without an end", []byte(text), ""},
	{"nothing", []byte("\x00\x00\x00\x00"), ""},
	{"one byte", []byte("."), ""},
	{"fatbin", makeFatbin(1, text), "all"},
	{"fatbin of machine code", makeFatbin(2, "code"), "all"},
	{"fatbin that is cut off", makeFatbin(1, text)[:90], ""},
	{"fatbin as long as memory", func() []byte { b := makeFatbin(1, text); le.PutUint64(b[8:], 1<<63); return b }(), ""},
	{"fatbin that goes round", func() []byte { b := makeFatbin(1, text); le.PutUint64(b[8:], 1<<64-8); return b }(), ""},
	{"fatbin with a short header", func() []byte { b := makeFatbin(1, text); le.PutUint16(b[6:], 4); return b }(), ""},
	{"wrapper", wrapFatbins(1, false, makeFatbin(1, text)), "body"},
	{"wrapper of machine code with parts", wrapFatbins(2, true, makeFatbin(2, "code"), makeFatbin(1, text), makeFatbin(1, text+"// 2")), "bundle"},
	{"wrapper of PTX with parts", wrapFatbins(2, true, makeFatbin(1, text), makeFatbin(1, text)), "first"},
	{"wrapper with an empty list", wrapFatbins(2, true, makeFatbin(2, "code")), "first"},
	{"wrapper of a wrapper", wrapFatbins(1, false, wrapFatbins(1, false, makeFatbin(1, text))), ""},
	{"wrapper of nothing", func() []byte { w := wrapFatbins(1, false, makeFatbin(1, text)); le.PutUint64(w[8:], 8); return w }(), ""},
	{"wrapper with a list of nothing", func() []byte { w := wrapFatbins(2, true, makeFatbin(2, "x")); le.PutUint64(w[16:], 8); return w }(), ""},
	{"wrapper that is cut off", wrapFatbins(1, false, makeFatbin(1, text))[:20], ""},
	{"cubin", makeELF(100, 1), "all"},
	{"cubin with a section that has no bytes", append(makeELF(0, 8), 1, 2, 3), "cut"},
	{"cubin of 32 bits", func() []byte { e := makeELF(9, 1); e[4] = 1; return e }(), ""},
	{"cubin with sections beyond its end", func() []byte { e := makeELF(9, 1); le.PutUint16(e[60:], 9); return e }(), ""},
	{"cubin with a section beyond its end", func() []byte { e := makeELF(9, 1); le.PutUint64(e[64+9+32:], 1<<20); return e }(), ""},
	{"cubin with small sections", func() []byte { e := makeELF(9, 1); le.PutUint16(e[58:], 8); return e }(), ""},
	{"half an ELF header", makeELF(9, 1)[:40], ""},
	{"bundle", func() []byte { b, _ := image.Bundle([][]byte{[]byte(text), makeFatbin(1, text)}); return b }(), "all"},
	{"bundle that is cut off", func() []byte { b, _ := image.Bundle([][]byte{[]byte(text)}); return b[:len(b)-1] }(), ""},
}

// TestImages: an image contains its length. The memory behind the image is never read: it is unmapped.
func TestImages(t *testing.T) {
	f := newFinder(t)
	for _, tc := range images {
		t.Run(tc.name, func(t *testing.T) {
			found, err := f.compareFinders(t, tc.data)
			switch tc.want {
			case "":
				if err == nil {
					t.Errorf("%d bytes are found, want no image", len(found))
				}
			case "all":
				if !bytes.Equal(found, tc.data) {
					t.Errorf("%d bytes are found, want %d", len(found), len(tc.data))
				}
			case "text":
				if n := bytes.IndexByte(tc.data, 0); !bytes.Equal(found, tc.data[:n]) {
					t.Errorf("%q is found", found)
				}
			case "body":
				if !bytes.Equal(found, tc.data[24:]) {
					t.Errorf("%d bytes are found, want %d", len(found), len(tc.data)-24)
				}
			case "cut":
				if len(found) != len(tc.data)-3 {
					t.Errorf("%d bytes are found, want %d", len(found), len(tc.data)-3)
				}
			case "first":
				if len(found) < 16 || uint64(len(found)) != 16+le.Uint64(found[8:]) {
					t.Errorf("%d bytes are found, want the first fatbin alone", len(found))
				}
			case "bundle":
				if texts, err := image.Choose(found, 80); err != nil || len(texts) != 2 {
					t.Errorf("Choose of the found bundle: %d texts, %v, want 2", len(texts), err)
				}
			}
		})
	}
}

func FuzzImage(f *testing.F) {
	for _, tc := range images {
		f.Add(tc.data)
	}
	c := newFinder(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 0 && len(data) < 1<<20 {
			_, _ = c.compareFinders(t, data)
		}
	})
}
