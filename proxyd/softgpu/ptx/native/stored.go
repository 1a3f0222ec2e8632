// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
)

// Store keeps machine code for later processes. Its methods may be called concurrently.
type Store interface {
	// Load returns what was saved under a key, or nil. The bytes are executed: an implementation returns only bytes that
	// this compiler has made, in a process of the same user.
	Load(key [sha256.Size]byte) []byte
	// Save keeps data, if it can.
	Save(key [sha256.Size]byte, data []byte)
}

// CompileStored is Compile, unless s has the code. The key is the hash of all that the compiler is given: machine code
// depends neither on addresses of the process nor on the values of constants, and uses no vector instructions but those
// that Check asks for. A store has the compiler's version in its own names.
func CompileStored(insts []Inst, s Store) (*Code, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	key := HashInsts(insts)
	if data := s.Load(key); data != nil {
		if c, err := decodeCode(data, len(insts)); err == nil {
			return c, nil
		}
	}
	c, err := Compile(insts)
	if err == nil {
		s.Save(key, c.encodeCode())
	}
	return c, err
}

// HashInsts is the key of a function in a Store: the hash of each field of each instruction, with the lengths of what has several elements.
func HashInsts(insts []Inst) (sum [sha256.Size]byte) {
	h := sha256.New()
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(insts)))
	for i := range insts {
		in := &insts[i]
		b = append(le.AppendUint32(b, uint32(len(in.Key))), in.Key...)
		for _, r := range [...]Ref{in.D, in.E, in.A, in.B, in.C, in.Guard} {
			b = le.AppendUint32(b, uint32(r))
		}
		b = le.AppendUint64(b, in.Imm)
		for _, n := range [...]int32{in.Site, in.Target, in.Meet} {
			b = le.AppendUint32(b, uint32(n))
		}
		b = append(b, byte(in.Flow), flagByte(in.Stops), in.Size, in.Count)
		b = le.AppendUint32(b, uint32(len(in.List)))
		for _, r := range in.List {
			b = le.AppendUint32(b, uint32(r))
		}
		b = appendNumbers(b, in.Targets)
		b = le.AppendUint32(b, uint32(len(in.Accesses)))
		for _, a := range in.Accesses {
			b = append(le.AppendUint32(b, uint32(a.Ref)), byte(a.Class), flagByte(a.Write))
		}
		if len(b) > 16<<10 {
			h.Write(b)
			b = b[:0]
		}
	}
	h.Write(b)
	h.Sum(sum[:0])
	return sum
}

func flagByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func appendNumbers(b []byte, numbers []int32) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(numbers)))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// encodeCode writes code down: the offsets of its entries, its exits, and its bytes. All numbers are little-endian.
func (c *Code) encodeCode() []byte {
	le := binary.LittleEndian
	b := appendNumbers(nil, c.full)
	b = appendNumbers(b, c.masked)
	b = appendNumbers(b, c.resumes)
	b = append(le.AppendUint32(b, uint32(c.resume)), flagByte(c.needs))
	for i := range c.exits {
		x := &c.exits[i]
		b = le.AppendUint32(b, uint32(x.pc))
		b = append(le.AppendUint32(b, x.issued), flagByte(x.resumes))
		b = appendSaved(appendSaved(b, x.before), x.after)
	}
	b = le.AppendUint32(b, uint32(len(c.text.bytes)))
	return append(b, c.text.bytes...)
}

func appendSaved(b []byte, slots []savedSlot) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(slots)))
	for _, s := range slots {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.at.ref))
		b = append(b, byte(s.at.class), byte(s.at.part), s.vec, flagByte(s.dirty))
	}
	return b
}

var errDamaged = errors.New("the stored code is damaged")

// reader reads what encodeCode has written. After an error all numbers are 0.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) readBytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) readByte() byte     { return r.readBytes(1)[0] }
func (r *reader) readUint32() uint32 { return binary.LittleEndian.Uint32(r.readBytes(4)) }

// readCount reads a number of elements of which each has size bytes.
func (r *reader) readCount(size int) int {
	n := r.readUint32()
	if uint64(n)*uint64(size) > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) readNumbers() []int32 {
	out := make([]int32, r.readCount(4))
	for i := range out {
		out[i] = int32(r.readUint32())
	}
	return out
}

func (r *reader) readSaved() []savedSlot {
	out := make([]savedSlot, r.readCount(8))
	for i := range out {
		s := &out[i]
		s.at.ref = Ref(r.readUint32())
		s.at.class, s.at.part, s.vec, s.dirty = Class(r.readByte()), int(r.readByte()), r.readByte(), r.readByte() != 0
		if s.at.class > Long || s.at.part > 3 || int(s.vec) >= firstSlot+slots {
			r.bad = true
		}
	}
	return out
}

// decodeCode reads the code of a function with so many instructions, and gives it executable memory.
func decodeCode(data []byte, insts int) (*Code, error) {
	r := &reader{rest: data}
	c := &Code{full: r.readNumbers(), masked: r.readNumbers(), resumes: r.readNumbers(), resume: int(r.readUint32()), needs: r.readByte() != 0}
	c.exits = make([]exit, len(c.resumes))
	for i := range c.exits {
		x := &c.exits[i]
		x.pc, x.issued, x.resumes = int32(r.readUint32()), r.readUint32(), r.readByte() != 0
		x.before, x.after = r.readSaved(), r.readSaved()
		r.bad = r.bad || x.pc < 0 || int(x.pc) >= insts
	}
	text := r.readBytes(r.readCount(1))
	outside := func(at int32) bool { return at < 0 || int(at) >= len(text) }
	if r.bad || len(r.rest) > 0 || len(c.full) != insts || len(c.masked) != insts || c.resume < 0 || c.resume >= len(text) ||
		slices.ContainsFunc(c.full, outside) || slices.ContainsFunc(c.masked, outside) || slices.ContainsFunc(c.resumes, outside) {
		return nil, errDamaged
	}
	var err error
	c.text, err = newText(text)
	return c, err
}
