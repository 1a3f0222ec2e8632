// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"fmt"
)

// A bundle is the image that a linker returns: u32 magic, u32 number of parts, u64 size of the bundle, and
// for each part u64 its size and its bytes.
const sizeBundle = 16

// Bundle joins images into a single image. The device links them with each other when it loads the bundle. A
// part that is itself a bundle is replaced by its parts. The error wraps ErrInvalid.
func Bundle(parts [][]byte) ([]byte, error) {
	var flat [][]byte
	total := sizeBundle
	for _, p := range parts {
		inner := [][]byte{p}
		if magicNumber(p) == magicBundle {
			var err error
			if inner, err = splitBundle(p); err != nil {
				return nil, err
			}
		}
		for _, q := range inner {
			flat = append(flat, q)
			total += 8 + len(q)
		}
	}
	if len(flat) == 0 || len(flat) > maxParts || total > MaxSize {
		return nil, fmt.Errorf("%w: a bundle of %d parts, %d bytes", ErrInvalid, len(flat), total)
	}
	le := binary.LittleEndian
	out := make([]byte, 0, total)
	out = le.AppendUint32(out, magicBundle)
	out = le.AppendUint32(out, uint32(len(flat)))
	out = le.AppendUint64(out, uint64(total))
	for _, p := range flat {
		out = le.AppendUint64(out, uint64(len(p)))
		out = append(out, p...)
	}
	return out, nil
}

// Parts lists the images in a bundle. For any other image it returns the image itself. Each returned image is
// complete: the sizes in the image do not lead beyond its end.
func Parts(data []byte) ([][]byte, error) {
	parts := [][]byte{data}
	if magicNumber(data) == magicBundle {
		var err error
		if parts, err = splitBundle(data); err != nil {
			return nil, err
		}
	}
	for i, p := range parts {
		switch magicNumber(p) {
		case magicELF:
			whole, err := fetchELF(loadedImage(p), 0)
			if err != nil {
				return nil, err
			}
			parts[i] = whole
		case magicFatbin:
			if _, err := readEntries(p); err != nil {
				return nil, err
			}
		default:
			if !isText(trimAtNUL(p)) {
				return nil, fmt.Errorf("%w: neither PTX nor a cubin nor a fatbin", ErrInvalid)
			}
		}
	}
	return parts, nil
}

// loadedImage is an image that is in this process's memory already.
type loadedImage []byte

// Read implements Memory.
func (h loadedImage) Read(addr uint64, p []byte) error {
	if addr > uint64(len(h)) || uint64(len(p)) > uint64(len(h))-addr {
		return fmt.Errorf("%w: it ends after %d bytes", ErrInvalid, len(h))
	}
	copy(p, h[addr:])
	return nil
}

func splitBundle(data []byte) ([][]byte, error) {
	bad := fmt.Errorf("%w: a damaged bundle", ErrInvalid)
	if len(data) < sizeBundle || len(data) > MaxSize || binary.LittleEndian.Uint64(data[8:]) != uint64(len(data)) {
		return nil, bad
	}
	n := binary.LittleEndian.Uint32(data[4:])
	var parts [][]byte
	rest := data[sizeBundle:]
	for range min(n, maxParts) {
		if len(rest) < 8 {
			return nil, bad
		}
		size := binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
		if size > uint64(len(rest)) {
			return nil, bad
		}
		parts, rest = append(parts, rest[:size:size]), rest[size:]
	}
	if len(rest) != 0 || len(parts) == 0 || uint32(len(parts)) != n {
		return nil, bad
	}
	return parts, nil
}

func fetchBundle(m Memory, addr uint64) ([]byte, error) {
	h := make([]byte, sizeBundle)
	if err := m.Read(addr, h); err != nil {
		return nil, err
	}
	return fetchImage(m, addr, binary.LittleEndian.Uint64(h[8:]), 0)
}
