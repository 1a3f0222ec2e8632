// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Flags of a fatbin's entry that describe its payload.
const (
	flagLZ4  = 1 << 13
	flagZstd = 1 << 15
)

var magicZstd = []byte{0x28, 0xB5, 0x2F, 0xFD}

// Bytes decompresses an entry. If the entry is not compressed, the result shares the memory of the image.
func (e *Entry) Bytes() ([]byte, error) {
	switch {
	case e.flags&(flagLZ4|flagZstd) == 0:
		return e.payload, nil
	case e.size > MaxSize:
		return nil, fmt.Errorf("%w: %d bytes when decompressed", ErrInvalid, e.size)
	case e.flags&flagZstd != 0 || bytes.HasPrefix(e.payload, magicZstd):
		return decodeZstd(e.payload, e.size)
	default:
		return decodeLZ4(e.payload, e.size)
	}
}

func decodeZstd(src []byte, size uint64) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(size, 1<<20)))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	dst, err := r.DecodeAll(src, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: zstd: %w", ErrInvalid, err)
	case uint64(len(dst)) != size:
		return nil, fmt.Errorf("%w: zstd: %d bytes, not %d", ErrInvalid, len(dst), size)
	}
	return dst, nil
}

// decodeLZ4 decodes an LZ4 block. Each sequence is a token with two lengths of four bits, literals, and a
// match: a two-byte offset back into the decoded bytes. A length of 15 continues in the bytes that follow.
// The last sequence has no match; padding behind the last sequence is ignored.
func decodeLZ4(src []byte, size uint64) ([]byte, error) {
	// A block cannot grow by a larger factor, so a false size is found before memory is allocated.
	if size > 255*uint64(len(src))+64 {
		return nil, fmt.Errorf("%w: lz4: %d bytes cannot become %d", ErrInvalid, len(src), size)
	}
	dst := make([]byte, 0, size)
	bad := fmt.Errorf("%w: lz4: the block is damaged", ErrInvalid)
	length := func(n int) (int, bool) {
		for more := n == 15; more; {
			if len(src) == 0 || n > MaxSize {
				return 0, false
			}
			n += int(src[0])
			more = src[0] == 255
			src = src[1:]
		}
		return n, true
	}
	for uint64(len(dst)) < size {
		if len(src) == 0 {
			return nil, bad
		}
		token := src[0]
		src = src[1:]
		n, ok := length(int(token >> 4))
		if !ok || n > len(src) || uint64(len(dst)+n) > size {
			return nil, bad
		}
		dst, src = append(dst, src[:n]...), src[n:]
		if uint64(len(dst)) == size {
			break
		}
		if len(src) < 2 {
			return nil, bad
		}
		back := int(src[0]) | int(src[1])<<8
		src = src[2:]
		n, ok = length(int(token & 15))
		n += 4
		if !ok || back == 0 || back > len(dst) || uint64(len(dst)+n) > size {
			return nil, bad
		}
		for range n { // source and destination may overlap
			dst = append(dst, dst[len(dst)-back])
		}
	}
	return dst, nil
}

// trimAtNUL cuts a text at its NUL.
func trimAtNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

func isText(b []byte) bool { return bytes.Contains(b, []byte(".version")) }
