// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// A chunk's file is a header and a payload. The header is not trusted: the hash of the
// plain bytes, which the chunk's name and every recipe state, decides.
//
//	0   4  magic "SSC1"
//	4   1  codec: 0 plain, 1 zstd (one frame)
//	5   3  zero
//	8   4  length of the plain bytes, little endian, 1 to MaxChunk
//	12  4  length of the payload, to the end of the file
const (
	chunkMagic  = "SSC1"
	chunkHeader = 16

	codecPlain = 0
	codecZstd  = 1
)

// MaxChunk is the length of the longest chunk.
const MaxChunk = 1 << 20

// maxChunkFile bounds a chunk's file: what does not shrink is stored plain.
const maxChunkFile = chunkHeader + MaxChunk

// header is a chunk's header, parsed.
type header struct {
	codec  byte
	plain  int
	stored int
}

var errChunkFormat = errors.New("not a chunk")

// parseHeader reads the header of a whole chunk file and checks it against the file's
// length, before anything is allocated.
func parseHeader(file []byte) (header, error) {
	if len(file) < chunkHeader || string(file[:4]) != chunkMagic {
		return header{}, errChunkFormat
	}
	h := header{
		codec:  file[4],
		plain:  int(binary.LittleEndian.Uint32(file[8:])),
		stored: int(binary.LittleEndian.Uint32(file[12:])),
	}
	switch {
	case file[5]|file[6]|file[7] != 0, h.codec > codecZstd:
		return header{}, fmt.Errorf("codec %d is unknown", h.codec)
	case h.plain < 1 || h.plain > MaxChunk:
		return header{}, fmt.Errorf("plain length %d is out of bounds", h.plain)
	case h.stored != len(file)-chunkHeader:
		return header{}, fmt.Errorf("payload of %d bytes, header says %d", len(file)-chunkHeader, h.stored)
	case h.codec == codecPlain && h.stored != h.plain:
		return header{}, fmt.Errorf("plain length %d, payload %d", h.plain, h.stored)
	}
	return h, nil
}

// putHeader fills the first bytes of file.
func putHeader(file []byte, h header) {
	copy(file, chunkMagic)
	file[4], file[5], file[6], file[7] = h.codec, 0, 0, 0
	binary.LittleEndian.PutUint32(file[8:], uint32(h.plain))
	binary.LittleEndian.PutUint32(file[12:], uint32(h.stored))
}

// encoder is one core's worth of compressor.
type encoder = *zstd.Encoder

// newEncoder returns one. The fastest level, without entropy coding of literals: on the
// memory of a Python process that is a fifth faster and a tenth larger, and a better level
// would halve the speed for another tenth.
func newEncoder() (encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithNoEntropyCompression(true),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(MaxChunk),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false)) // the hash covers it
}

// newDecoder returns a decoder for concurrent DecodeAll that refuses to make more than
// MaxChunk bytes out of anything.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxChunk), zstd.WithDecoderConcurrency(0))
}

// sampleSize is how much of a chunk is compressed to see whether the rest would shrink,
// in samplePieces pieces from all over it.
const (
	sampleSize   = 32 << 10
	samplePieces = 4
)

// encodeChunk returns the header and the payload of a chunk's file. The payload is in
// scratch's storage when that is large enough, or is plain itself.
func encodeChunk(scratch, plain []byte, enc encoder) (head [chunkHeader]byte, payload []byte) {
	h := header{codecPlain, len(plain), len(plain)}
	payload = plain
	if len(plain) < 4*sampleSize || worthwhile(len(enc.EncodeAll(sample(scratch, plain), scratch[:0])), sampleSize) {
		if packed := enc.EncodeAll(plain, scratch[:0]); worthwhile(len(packed), len(plain)) {
			h, payload = header{codecZstd, len(plain), len(packed)}, packed
		}
	}
	putHeader(head[:], h)
	return head, payload
}

// worthwhile says whether compression to packed bytes pays: what saves less than an
// eighth costs more time, here and at every restore, than it saves on any disk.
func worthwhile(packed, plain int) bool { return packed <= plain-plain/8 }

// sample gathers pieces from all over plain, which is longer than sampleSize, at the end
// of scratch if that is long enough for what is compressed to its beginning.
func sample(scratch, plain []byte) []byte {
	const piece = sampleSize / samplePieces
	var s []byte
	if n := cap(scratch); n >= 4*sampleSize {
		s = scratch[:n][n-sampleSize : n-sampleSize]
	}
	step := (len(plain) - piece) / (samplePieces - 1)
	for i := range samplePieces {
		s = append(s, plain[i*step:i*step+piece]...)
	}
	return s
}

// decodeChunk returns the plain bytes of a chunk's file, in dst's storage when that is
// large enough. Whatever the file holds, the result has the hash h and length n, or the
// error is a *DamagedError.
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
	plain, err := unpack(dst[:0], file[chunkHeader:], head.codec, dec)
	if err != nil {
		return nil, damaged(err.Error())
	}
	if len(plain) != head.plain || hashOf(plain) != h {
		return nil, damaged("hash mismatch")
	}
	return plain, nil
}

// unpack appends what payload stands for to dst.
func unpack(dst, payload []byte, codec byte, dec *zstd.Decoder) ([]byte, error) {
	if codec == codecPlain {
		return append(dst, payload...), nil
	}
	return dec.DecodeAll(payload, dst)
}
