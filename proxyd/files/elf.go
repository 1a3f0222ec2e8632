// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
)

const maxELFPart = 64 << 10

// bypassesShim says whether a program, when executed, does not go through the shim: the program
// is linked statically, by Go, for another libc or another word size. A user has made the file:
// no more than a few fixed sizes are read.
func bypassesShim(r io.ReaderAt) bool {
	var h elf.Header64
	b := make([]byte, binary.Size(h))
	if _, err := r.ReadAt(b, 0); err != nil || !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		return false // a script: the interpreter is executed, and looked at, by itself
	}
	if elf.Class(b[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(b[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return true
	}
	if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, &h); err != nil || h.Phnum > 256 {
		return true
	}
	interpreter, soname, goNote := "", false, false
	for i := range int64(h.Phnum) {
		var p elf.Prog64
		b := make([]byte, binary.Size(p))
		if _, err := r.ReadAt(b, int64(h.Phoff)+i*int64(h.Phentsize)); err != nil {
			return true
		}
		if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, &p); err != nil {
			return true
		}
		switch elf.ProgType(p.Type) {
		case elf.PT_INTERP:
			interpreter = string(readPart(r, p))
		case elf.PT_DYNAMIC:
			soname = hasSoname(readPart(r, p))
		case elf.PT_NOTE:
			goNote = goNote || hasGoNote(readPart(r, p))
		}
	}
	switch {
	case goNote, bytes.Contains([]byte(interpreter), []byte("musl")):
		return true
	case interpreter != "":
		return false
	}
	return !soname // the dynamic linker has a soname and no interpreter; a static program has neither
}

func readPart(r io.ReaderAt, p elf.Prog64) []byte {
	b := make([]byte, min(p.Filesz, maxELFPart))
	n, _ := r.ReadAt(b, int64(p.Off))
	return b[:n]
}

func hasSoname(dynamic []byte) bool {
	for ; len(dynamic) >= 16; dynamic = dynamic[16:] {
		switch elf.DynTag(binary.LittleEndian.Uint64(dynamic)) {
		case elf.DT_SONAME:
			return true
		case elf.DT_NULL:
			return false
		}
	}
	return false
}

// hasGoNote finds the build id that the Go linker leaves in its programs.
func hasGoNote(notes []byte) bool {
	for len(notes) >= 12 {
		nameSize, descSize := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:])
		kind := binary.LittleEndian.Uint32(notes[8:])
		rest := notes[12:]
		if nameSize > maxELFPart || descSize > maxELFPart || int(nameSize) > len(rest) {
			return false
		}
		if kind == 4 && bytes.Equal(rest[:nameSize], []byte("Go\x00\x00")) {
			return true
		}
		size := int(nameSize+3)&^3 + int(descSize+3)&^3
		if size > len(rest) {
			return false
		}
		notes = rest[size:]
	}
	return false
}
