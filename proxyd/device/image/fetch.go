// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"fmt"
)

// Memory is the memory of the program that loads an image. Read fills p with the bytes at addr, or fails.
type Memory interface {
	Read(addr uint64, p []byte) error
}

// Fetch reads the image at addr. The size of the result is bounded, and its content is not checked: give the
// result to Choose. The error wraps ErrInvalid, or is the error of m.
func Fetch(m Memory, addr uint64) ([]byte, error) { return fetchAny(m, addr, false) }

func fetchAny(m Memory, addr uint64, wrapped bool) ([]byte, error) {
	head := make([]byte, 4)
	if err := m.Read(addr, head); err != nil {
		return nil, err
	}
	switch magicNumber(head) {
	case magicWrapper:
		if wrapped {
			return nil, fmt.Errorf("%w: a wrapper in a wrapper", ErrInvalid)
		}
		return fetchWrapped(m, addr)
	case magicFatbin:
		return fetchFatbin(m, addr)
	case magicELF:
		return fetchELF(m, addr)
	case magicBundle:
		return fetchBundle(m, addr)
	default:
		return fetchText(m, addr)
	}
}

func fetchWrapped(m Memory, addr uint64) ([]byte, error) {
	w := make([]byte, sizeWrapper)
	if err := m.Read(addr, w); err != nil {
		return nil, err
	}
	version, at, list := binary.LittleEndian.Uint32(w[4:]), binary.LittleEndian.Uint64(w[8:]), binary.LittleEndian.Uint64(w[16:])
	main, err := fetchAny(m, at, true)
	if err != nil {
		return nil, fmt.Errorf("fatbin in a wrapper: %w", err)
	}
	if version < 2 || list == 0 || hasPTX(main) {
		return main, nil
	}
	// nvcc's linked output is machine code, and its parts may still have PTX.
	var parts [][]byte
	total := 0
	for p := make([]byte, 8); len(parts) < maxParts; list += 8 {
		if err := m.Read(list, p); err != nil {
			return nil, err
		}
		at := binary.LittleEndian.Uint64(p)
		if at == 0 {
			break
		}
		part, err := fetchFatbin(m, at)
		if err != nil {
			return nil, fmt.Errorf("fatbin %d in a wrapper: %w", len(parts), err)
		}
		if total += len(part); total > MaxSize {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrInvalid, MaxSize)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return main, nil
	}
	return Bundle(parts)
}

func hasPTX(data []byte) bool {
	list, err := Entries(data)
	if err != nil {
		return false
	}
	for _, e := range list {
		if e.Kind == PTX {
			return true
		}
	}
	return false
}

func fetchFatbin(m Memory, addr uint64) ([]byte, error) {
	h := make([]byte, sizeFatbin)
	if err := m.Read(addr, h); err != nil {
		return nil, err
	}
	if magicNumber(h) != magicFatbin {
		return nil, fmt.Errorf("%w: no fatbin is there", ErrInvalid)
	}
	return fetchImage(m, addr, uint64(binary.LittleEndian.Uint16(h[6:])), binary.LittleEndian.Uint64(h[8:]))
}

// fetchELF reads a cubin up to its end: the end of its tables of sections and segments, and of the bytes that
// these refer to.
func fetchELF(m Memory, addr uint64) ([]byte, error) {
	h := make([]byte, 64)
	if err := m.Read(addr, h); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if h[4] != 2 || h[5] != 1 {
		return nil, fmt.Errorf("%w: an ELF file that is not of 64 bits, little-endian", ErrInvalid)
	}
	end := uint64(64)
	for _, t := range []struct {
		at           uint64
		n, size, min uint16
		offset, span int // of the fields in an element
		nobits       bool
	}{
		{le.Uint64(h[40:]), le.Uint16(h[60:]), le.Uint16(h[58:]), 64, 24, 32, true},
		{le.Uint64(h[32:]), le.Uint16(h[56:]), le.Uint16(h[54:]), 56, 8, 32, false},
	} {
		if t.n == 0 {
			continue
		}
		bytes := uint64(t.n) * uint64(t.size)
		if t.size < t.min || t.at > MaxSize || t.at+bytes > MaxSize {
			return nil, fmt.Errorf("%w: an ELF file with a wrong table", ErrInvalid)
		}
		end = max(end, t.at+bytes)
		table, err := fetchImage(m, addr+t.at, bytes, 0)
		if err != nil {
			return nil, err
		}
		for e := table; len(e) > 0; e = e[t.size:] {
			if t.nobits && le.Uint32(e[4:]) == 8 { // SHT_NOBITS has no bytes in the file
				continue
			}
			at, n := le.Uint64(e[t.offset:]), le.Uint64(e[t.span:])
			if at > MaxSize || n > MaxSize {
				return nil, fmt.Errorf("%w: an ELF file with a part beyond its end", ErrInvalid)
			}
			end = max(end, at+n)
		}
	}
	return fetchImage(m, addr, end, 0)
}

// fetchText reads up to the NUL, and never beyond the page that has the NUL.
func fetchText(m Memory, addr uint64) ([]byte, error) {
	const page = 4096
	var text []byte
	for len(text) < MaxSize {
		p := make([]byte, page-addr%page)
		if err := m.Read(addr, p); err != nil {
			return nil, err
		}
		cut := trimAtNUL(p)
		text = append(text, cut...)
		if len(cut) < len(p) {
			return text, nil
		}
		addr += uint64(len(p))
	}
	return nil, fmt.Errorf("%w: neither PTX nor a cubin nor a fatbin", ErrInvalid)
}

func fetchImage(m Memory, addr, header, body uint64) ([]byte, error) {
	if header > MaxSize || body > MaxSize || header+body > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes are more than %d", ErrInvalid, body, MaxSize)
	}
	// The image is read piece by piece, so that a false size does not allocate memory for bytes that are not
	// there.
	const piece = 1 << 20
	var data []byte
	for left := header + body; left > 0; {
		p := make([]byte, min(left, piece))
		if err := m.Read(addr+uint64(len(data)), p); err != nil {
			return nil, err
		}
		data = append(data, p...)
		left -= uint64(len(p))
	}
	return data, nil
}
