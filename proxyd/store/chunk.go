// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// A chunk's file is a header and a payload. The header is not trusted: the hash of the
// plain bytes, which the chunk's name and every recipe state, decides.
//
//	0   4  magic "SSC1"
//	4   1  codec: 0 plain, 1 zstd (a single frame; read, no longer written), 2 S2 (a single block)
//	5   3  zero
//	8   4  length of the plain bytes, little endian, 1 to MaxChunk
//	12  4  length of the payload, to the end of the file
const (
	chunkMagic  = "SSC1"
	chunkHeader = 16

	codecPlain = 0
	codecZstd  = 1
	codecS2    = 2
)

// MaxChunk is the length of the longest chunk.
const MaxChunk = 1 << 20

// maxChunkFile bounds a chunk's file: a chunk that does not shrink is stored plain.
const maxChunkFile = chunkHeader + MaxChunk

// chunkHeaderFields is a chunk's header, parsed.
type chunkHeaderFields struct {
	codec  byte
	plain  int
	stored int
}

var errChunkFormat = errors.New("not a chunk")

// parseHeader reads the header of a whole chunk file and checks it against the file's
// length, before anything is allocated.
func parseHeader(file []byte) (chunkHeaderFields, error) {
	if len(file) < chunkHeader || string(file[:4]) != chunkMagic {
		return chunkHeaderFields{}, errChunkFormat
	}
	h := chunkHeaderFields{
		codec:  file[4],
		plain:  int(binary.LittleEndian.Uint32(file[8:])),
		stored: int(binary.LittleEndian.Uint32(file[12:])),
	}
	switch {
	case file[5]|file[6]|file[7] != 0, h.codec > codecS2:
		return chunkHeaderFields{}, fmt.Errorf("codec %d is unknown", h.codec)
	case h.plain < 1 || h.plain > MaxChunk:
		return chunkHeaderFields{}, fmt.Errorf("plain length %d is out of bounds", h.plain)
	case h.stored != len(file)-chunkHeader:
		return chunkHeaderFields{}, fmt.Errorf("payload of %d bytes, header says %d", len(file)-chunkHeader, h.stored)
	case h.codec == codecPlain && h.stored != h.plain:
		return chunkHeaderFields{}, fmt.Errorf("plain length %d, payload %d", h.plain, h.stored)
	}
	return h, nil
}

// putHeader fills the first bytes of file.
func putHeader(file []byte, h chunkHeaderFields) {
	copy(file, chunkMagic)
	file[4], file[5], file[6], file[7] = h.codec, 0, 0, 0
	binary.LittleEndian.PutUint32(file[8:], uint32(h.plain))
	binary.LittleEndian.PutUint32(file[12:], uint32(h.stored))
}

// newDecoder returns a decoder of old chunks, for concurrent DecodeAll. It refuses any input that would decode to more
// than MaxChunk bytes.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxChunk), zstd.WithDecoderConcurrency(0))
}

// encodeChunk returns the header and the payload of a chunk's file. The payload is in scratch's
// storage if that has packedMax(len(plain)) bytes, or is plain itself.
//
// S2 takes a third to a half of the time of zstd's fastest level without entropy coding of
// literals, which was used before. S2 makes memory of training jobs 0 to 24 % larger, and the most
// compressible data, a heap of small objects, half as large again or more, which is then a quarter
// of the plain length. S2 itself skips most of the incompressible data.
func encodeChunk(scratch, plain []byte) (head [chunkHeader]byte, payload []byte) {
	h := chunkHeaderFields{codecPlain, len(plain), len(plain)}
	payload = plain
	if packed := s2.Encode(scratch[:cap(scratch)], plain); isWorthwhile(len(packed), len(plain)) {
		h, payload = chunkHeaderFields{codecS2, len(plain), len(packed)}, packed
	}
	putHeader(head[:], h)
	return head, payload
}

// isWorthwhile tells whether compression to packed bytes pays: a saving of less than an eighth
// costs more time, here and at every restore, than the disk space is worth.
func isWorthwhile(packed, plain int) bool { return packed <= plain-plain/8 }

// packedMax bounds the space for compression of n bytes, n ≤ MaxChunk.
func packedMax(n int) int { return s2.MaxEncodedLen(n) }

// decodeChunk returns the plain bytes of a chunk's file, in dst's storage if that is large
// enough. For any content of the file, the result has the hash h and length n, or the error is a
// *DamagedError.
func decodeChunk(dst, file []byte, h Hash, n int, dec *zstd.Decoder) ([]byte, error) {
	damaged := func(reason string) error { return &DamagedError{"chunk " + h.String(), reason} }
	head, err := parseHeader(file)
	if err != nil {
		return nil, damaged(err.Error())
	}
	if head.plain != n {
		return nil, damaged(fmt.Sprintf("%d bytes, recipe says %d", head.plain, n))
	}
	if cap(dst) < head.plain {
		dst = make([]byte, 0, head.plain)
	}
	plain, err := unpackPayload(dst[:0], file[chunkHeader:], head, dec)
	if err != nil {
		return nil, damaged(err.Error())
	}
	if len(plain) != head.plain || hashOf(plain) != h {
		return nil, damaged("hash mismatch")
	}
	return plain, nil
}

// unpackPayload returns the plain bytes of payload, in dst's storage if that is large enough.
// unpackPayload produces at most MaxChunk bytes.
func unpackPayload(dst, payload []byte, head chunkHeaderFields, dec *zstd.Decoder) ([]byte, error) {
	switch head.codec {
	case codecS2:
		// Decode allocates by the length that the block itself states.
		if n, err := s2.DecodedLen(payload); err != nil {
			return nil, err
		} else if n != head.plain {
			return nil, fmt.Errorf("plain length %d, block of %d", head.plain, n)
		}
		return s2.Decode(dst[:cap(dst)], payload)
	case codecZstd:
		return dec.DecodeAll(payload, dst[:0])
	default:
		return append(dst[:0], payload...), nil
	}
}
