// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package image parses the images that programs pass to cuModuleLoadData, cuLibraryLoadData and
// cuLinkAddData: PTX text, a cubin (ELF), a fatbin, or the wrapper that nvcc puts around a fatbin.
//
//	wrapper     u32 0x466243B1, u32 version, u64 address of a fatbin,
//	            u64 in version 2: address of a list of fatbins to be linked, ended by 0
//	fatbin      u32 0xBA55ED50, u16 version, u16 size of this header, u64 bytes that follow
//	  entry     u16 kind (1 PTX, 2 ELF), u16, u32 size of this header, u32 bytes to the next entry, u32,
//	            u32 bytes of the payload (0: all), u32, u16 minor, u16 major, u32 architecture, u32, u32,
//	            u64 flags (bit 13 LZ4, bit 15 zstd), u64, u64 bytes of the payload when decompressed
//	bundle      our own format: several of the above that are linked when they are loaded, see Bundle
//
// All numbers are little-endian. A program passes an image without its length: the shim reads the sizes in the
// image while it copies the image from the program's memory (libsingshim/shim/device/image.c), and this package
// works on the copy. Only tests call Fetch, which does in Go what the shim does, to compare the two. The program
// may have written any bytes: every number is checked before use, and no image makes this package use more memory
// than a small multiple of MaxSize.
package image

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxSize bounds an image, and each text in an image when decompressed.
const MaxSize = 256 << 20

// maxParts bounds the fatbins of a wrapper and the parts of a bundle.
const maxParts = 1 << 16

// The errors of this package wrap these, or the error of Memory.Read.
var (
	// ErrInvalid: the bytes are in no known format, or contradict themselves.
	ErrInvalid = errors.New("image is not valid")
	// ErrNoPTX: the image has machine code only, or PTX only for newer devices.
	ErrNoPTX = errors.New("image has no PTX for this device")
)

const (
	magicWrapper = 0x466243B1
	magicFatbin  = 0xBA55ED50
	magicELF     = 0x464C457F
	magicBundle  = 0x4C474E53 // SNGL

	sizeWrapper = 24
	sizeFatbin  = 16
	sizeEntry   = 64
)

// Kind is a form of code.
type Kind uint16

// The kinds, as a fatbin numbers them.
const (
	PTX Kind = 1
	ELF Kind = 2
)

// Entry is a piece of code of a fatbin.
type Entry struct {
	Kind         Kind
	Arch         uint32 // 80 is compute capability 8.0; 0 outside of a fatbin
	Major, Minor uint16 // of the PTX ISA or the cubin's format
	payload      []byte
	flags        uint64
	size         uint64 // decompressed
}

// IsCompiled tells whether an image was built into a program by its compiler: a fatbin, or a bundle of several. Programs
// pass texts and cubins themselves, and may try one after the other.
func IsCompiled(data []byte) bool {
	m := magicNumber(data)
	return m == magicFatbin || m == magicBundle
}

// Entries lists the code in a fatbin. For a text or a cubin it returns a single entry. It does not accept
// bundles.
func Entries(data []byte) ([]Entry, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes are more than %d", ErrInvalid, len(data), MaxSize)
	}
	switch magicNumber(data) {
	case magicFatbin:
		return readEntries(data)
	case magicELF:
		const machine, cuda = 18, 190 // e_machine
		if len(data) < 64 || binary.LittleEndian.Uint16(data[machine:]) != cuda {
			return nil, fmt.Errorf("%w: an ELF file without code of a GPU", ErrInvalid)
		}
		return []Entry{{Kind: ELF, payload: data, size: uint64(len(data))}}, nil
	}
	if text := trimAtNUL(data); isText(text) {
		return []Entry{{Kind: PTX, payload: text, size: uint64(len(text))}}, nil
	}
	return nil, fmt.Errorf("%w: neither PTX nor a cubin nor a fatbin", ErrInvalid)
}

func readEntries(data []byte) ([]Entry, error) {
	if len(data) < sizeFatbin {
		return nil, fmt.Errorf("%w: a fatbin of %d bytes", ErrInvalid, len(data))
	}
	header, body := uint64(binary.LittleEndian.Uint16(data[6:])), binary.LittleEndian.Uint64(data[8:])
	if header < sizeFatbin || header > uint64(len(data)) || body > uint64(len(data))-header {
		return nil, fmt.Errorf("%w: a fatbin of %d bytes says that it has %d", ErrInvalid, len(data), body)
	}
	var list []Entry
	for at, rest := 0, data[header:header+body]; len(rest) >= sizeEntry; at++ {
		e, n, err := readEntry(rest)
		if err != nil {
			return nil, fmt.Errorf("fatbin, entry %d: %w", at, err)
		}
		list = append(list, e)
		rest = rest[n:]
	}
	return list, nil
}

// readEntry parses the entry at the start of data and returns the distance to the next entry.
func readEntry(data []byte) (Entry, uint64, error) {
	le := binary.LittleEndian
	header, padded, size := uint64(le.Uint32(data[4:])), uint64(le.Uint32(data[8:])), uint64(le.Uint32(data[16:]))
	if header < sizeEntry || header+padded > uint64(len(data)) {
		return Entry{}, 0, fmt.Errorf("%w: %d bytes of header and %d of payload, %d are left", ErrInvalid, header, padded, len(data))
	}
	e := Entry{
		Kind: Kind(le.Uint16(data)), Minor: le.Uint16(data[24:]), Major: le.Uint16(data[26:]), Arch: le.Uint32(data[28:]),
		flags: le.Uint64(data[40:]), size: le.Uint64(data[56:]),
	}
	if size == 0 || size > padded {
		size = padded
	}
	e.payload = data[header:][:size]
	if !e.isCompressed() {
		e.size = size
	}
	return e, header + padded, nil
}

// Choose returns the PTX texts of an image for a device of the given architecture, in the order in which they
// are to be linked: of each fatbin, the newest text that is not newer than the device. The error wraps
// ErrInvalid or ErrNoPTX.
func Choose(data []byte, arch uint32) ([]string, error) {
	if magicNumber(data) == magicBundle {
		parts, err := splitBundle(data)
		if err != nil {
			return nil, err
		}
		var texts []string
		for i, p := range parts {
			text, err := chooseEntry(p, arch)
			if err != nil {
				return nil, fmt.Errorf("part %d: %w", i, err)
			}
			texts = append(texts, text)
		}
		return texts, nil
	}
	text, err := chooseEntry(data, arch)
	if err != nil {
		return nil, err
	}
	return []string{text}, nil
}

func chooseEntry(data []byte, arch uint32) (string, error) {
	list, err := Entries(data)
	if err != nil {
		return "", err
	}
	best, cubins, newer := -1, 0, uint32(0)
	for i, e := range list {
		switch {
		case e.Kind == ELF:
			cubins++
		case e.Kind != PTX:
		case e.Arch > arch:
			newer = e.Arch
		case best < 0 || e.Arch > list[best].Arch:
			best = i
		}
	}
	switch {
	case best >= 0:
		return list[best].Text()
	case newer != 0:
		return "", fmt.Errorf("%w: its PTX is for architecture %d, the device has %d", ErrNoPTX, newer, arch)
	default:
		return "", fmt.Errorf("%w: of %d pieces of code, %d are machine code", ErrNoPTX, len(list), cubins)
	}
}

// Text decompresses an entry of PTX.
func (e *Entry) Text() (string, error) {
	b, err := e.Bytes()
	if err != nil {
		return "", err
	}
	b = trimAtNUL(b)
	if !isText(b) {
		return "", fmt.Errorf("%w: an entry of PTX has no .version", ErrInvalid)
	}
	if e.isCompressed() {
		return stringOf(b), nil
	}
	return string(b), nil
}

func magicNumber(data []byte) uint32 {
	if len(data) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(data)
}
