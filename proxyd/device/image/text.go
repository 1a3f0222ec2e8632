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

func (e *Entry) isCompressed() bool { return e.flags&(flagLZ4|flagZstd) != 0 }

// Bytes decompresses an entry. If the entry is not compressed, the result shares the memory of the image.
func (e *Entry) Bytes() ([]byte, error) {
	switch {
	case !e.isCompressed():
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

// wide is how many bytes decodeLZ4 copies at once where fewer are needed: faster than to copy as many as are needed.
const wide = 32

// decodeLZ4 decodes an LZ4 block. Each sequence is a token with two lengths of four bits, literals, and a
// match: a two-byte offset back into the decoded bytes. A length of 15 continues in the bytes that follow.
// The last sequence has no match; padding behind the last sequence is ignored.
func decodeLZ4(src []byte, size uint64) ([]byte, error) {
	// A block cannot grow by a larger factor, so a false size is found before memory is allocated.
	if size > 255*uint64(len(src))+64 {
		return nil, fmt.Errorf("%w: lz4: %d bytes cannot become %d", ErrInvalid, len(src), size)
	}
	bad := fmt.Errorf("%w: lz4: the block is damaged", ErrInvalid)
	end := int(size)
	dst := make([]byte, end+wide)
	for done, at := 0, 0; done < end; {
		if at >= len(src) {
			return nil, bad
		}
		token := src[at]
		literals, next := readLength(src, at+1, token>>4)
		if next < 0 || literals > len(src)-next || literals > end-done {
			return nil, bad
		}
		if literals <= wide && wide <= len(src)-next {
			*(*[wide]byte)(dst[done:]) = *(*[wide]byte)(src[next:])
		} else {
			copy(dst[done:], src[next:next+literals])
		}
		done, at = done+literals, next+literals
		if done == end {
			break
		}
		if len(src)-at < 2 {
			return nil, bad
		}
		back := int(src[at]) | int(src[at+1])<<8
		match, next := readLength(src, at+2, token&15)
		match += 4
		if next < 0 || back == 0 || back > done || match > end-done {
			return nil, bad
		}
		copyMatch(dst, done, back, match)
		done, at = done+match, next
	}
	return dst[:end:end], nil
}

// readLength reads the bytes in which a length of a token goes on, and returns the length and the offset behind these
// bytes, or an offset below 0 if they do not end.
func readLength(src []byte, at int, token byte) (length, next int) {
	length = int(token)
	for more := token == 15; more; at++ {
		if at >= len(src) || length > MaxSize {
			return 0, -1
		}
		length += int(src[at])
		more = src[at] == 255
	}
	return length, at
}

// copyMatch copies n bytes to dst[at:] that lie back bytes before. A match that is longer than its offset repeats
// itself. Behind the n bytes, dst has room for wide bytes, which copyMatch may change.
func copyMatch(dst []byte, at, back, n int) {
	from := at - back
	if n <= wide && back >= wide {
		*(*[wide]byte)(dst[at:]) = *(*[wide]byte)(dst[from:])
		return
	}
	for end := at + n; at < end; {
		at += copy(dst[at:end], dst[from:at])
	}
}

// trimAtNUL cuts a text at its NUL.
func trimAtNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

func isText(b []byte) bool { return bytes.Contains(b, []byte(".version")) }
