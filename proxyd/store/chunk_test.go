// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// chunkFile is a chunk's file, by docs/formats.md.
func chunkFile(codec byte, plain int, payload []byte) []byte {
	file := append([]byte("SSC1"), codec, 0, 0, 0)
	file = binary.LittleEndian.AppendUint32(file, uint32(plain))
	file = binary.LittleEndian.AppendUint32(file, uint32(len(payload)))
	return append(file, payload...)
}

func openDecoder(t testing.TB) *zstd.Decoder {
	t.Helper()
	dec, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dec.Close)
	return dec
}

// TestChunkCodecs: each kind of bytes gets its codec, and the bytes come back, with memory to reuse and without.
func TestChunkCodecs(t *testing.T) {
	noise := make([]byte, MaxChunk)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	text := bytes.Repeat([]byte("seven and eight "), MaxChunk/16)
	cases := []struct {
		name  string
		plain []byte
		codec byte
	}{
		{"one byte", []byte("x"), codecPlain},
		{"short", []byte("seven"), codecPlain},
		{"short and equal", make([]byte, 64), codecS2},
		{"text", text[:30_000], codecS2},
		{"longest", text, codecS2},
		{"noise", noise[:30_000], codecPlain},
		{"longest noise", noise, codecPlain},
		{"an eighth of it shrinks", append(bytes.Clone(noise[:28_000]), text[:4_000]...), codecPlain},
		{"a quarter of it shrinks", append(bytes.Clone(noise[:24_000]), text[:8_000]...), codecS2},
	}
	dec := openDecoder(t)
	scratch, dst := make([]byte, 0, packedMax(MaxChunk)), make([]byte, 0, MaxChunk)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			head, payload := encodeChunk(scratch, c.plain)
			file := chunkFile(c.codec, len(c.plain), payload)
			if !bytes.Equal(file[:chunkHeader], head[:]) {
				t.Fatalf("header % x, want % x", head, file[:chunkHeader])
			}
			if len(file) > maxChunkFile {
				t.Errorf("%d bytes, a reader takes %d", len(file), maxChunkFile)
			}
			if c.codec == codecS2 && &payload[0] != &scratch[:1][0] {
				t.Error("the memory for it was not used")
			}
			head, payload = encodeChunk(nil, c.plain)
			if !bytes.Equal(file, append(head[:], payload...)) {
				t.Error("another file without memory for it")
			}
			for _, into := range [][]byte{nil, dst} {
				got, err := decodeChunk(into, file, hashOf(c.plain), len(c.plain), dec)
				if err != nil || !bytes.Equal(got, c.plain) {
					t.Errorf("with %d bytes of memory: %d bytes came back: %v", cap(into), len(got), err)
				}
			}
		})
	}
}

// TestOldChunk: a file that was written when zstd was the codec.
func TestOldChunk(t *testing.T) {
	file := []byte("SSC1\x01\x00\x00\x00\xe8\x03\x00\x00\x2d\x00\x00\x00" +
		"(\xb5/\xfd@\x00\xe8\x02\x15\x01\x00\x94\x01one page of an old store\n\x01T\x14\x04-1\xe7")
	plain := bytes.Repeat([]byte("one page of an old store\n"), 40)
	got, err := decodeChunk(nil, file, hashOf(plain), len(plain), openDecoder(t))
	if err != nil || !bytes.Equal(got, plain) {
		t.Errorf("decodeChunk of an old chunk = %q, %v", got, err)
	}
}

// TestHostileChunks: no more bytes are decoded than the recipe promises, and the error has the reason.
func TestHostileChunks(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain := bytes.Repeat([]byte("seven and eight "), 1000)
	block, frame := s2.Encode(nil, plain), enc.EncodeAll(plain, nil)
	bomb := make([]byte, 64<<20)
	varint := func(n uint64, rest ...byte) []byte { return append(binary.AppendUvarint(nil, n), rest...) }
	cases := []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "not a chunk"},
		{"header cut", chunkFile(codecS2, 5, nil)[:15], "not a chunk"},
		{"codec to come", chunkFile(codecS2+1, len(plain), block), "codec 3 is unknown"},
		{"reserved byte", func() []byte { f := chunkFile(codecS2, len(plain), block); f[6] = 1; return f }(), "codec 2 is unknown"},
		{"no bytes", chunkFile(codecS2, 0, varint(0)), "plain length 0 is out of bounds"},
		{"too long", chunkFile(codecS2, MaxChunk+1, s2.Encode(nil, bomb[:MaxChunk+1])), "plain length 1048577 is out of bounds"},
		{"file cut", chunkFile(codecS2, len(plain), block)[:20], "payload of 4 bytes"},
		{"file longer", append(chunkFile(codecS2, len(plain), block), 0), "header says"},
		{"plain cut", chunkFile(codecPlain, len(plain), plain[1:]), "plain length 16000, payload 15999"},
		{"S2 empty", chunkFile(codecS2, len(plain), nil), "s2: corrupt input"},
		{"S2 length cut", chunkFile(codecS2, len(plain), []byte{0xff}), "s2: corrupt input"},
		{"S2 block shorter", chunkFile(codecS2, len(plain)+1, block), "plain length 16001, block of 16000"},
		{"S2 block longer", chunkFile(codecS2, len(plain)-1, block), "plain length 15999, block of 16000"},
		{"S2 bomb", chunkFile(codecS2, len(plain), s2.Encode(nil, bomb)), "plain length 16000, block of 67108864"},
		{"S2 declares 4 GiB", chunkFile(codecS2, len(plain), varint(1<<32-1, 0)), "plain length 16000, block of 4294967295"},
		{"S2 declares more", chunkFile(codecS2, len(plain), varint(1<<40, 0)), "s2: "},
		{"S2 block cut", chunkFile(codecS2, len(plain), block[:len(block)-1]), "s2: corrupt input"},
		{"S2 block and more", chunkFile(codecS2, len(plain), append(bytes.Clone(block), 0, 'x')), "s2: corrupt input"},
		{"S2 copy of nothing", chunkFile(codecS2, 64, varint(64, 63<<2|2, 1, 0)), "s2: corrupt input"},
		{"S2 literal beyond", chunkFile(codecS2, 64, varint(64, 63<<2, 'x')), "s2: corrupt input"},
		{"S2 of other bytes", chunkFile(codecS2, len(plain), s2.Encode(nil, bomb[:len(plain)])), "hash mismatch"},
		{"zstd empty", chunkFile(codecZstd, len(plain), nil), "hash mismatch"},
		{"zstd bomb", chunkFile(codecZstd, len(plain), enc.EncodeAll(bomb, nil)), "window size exceeded"},
		{"zstd frame cut", chunkFile(codecZstd, len(plain), frame[:len(frame)-1]), "unexpected EOF"},
		{"zstd frame longer", chunkFile(codecZstd, len(plain)-1, frame), "hash mismatch"},
		{"S2 as zstd", chunkFile(codecZstd, len(plain), block), "invalid input"},
		{"zstd as S2", chunkFile(codecS2, len(plain), frame), "block of "},
	}
	dec, dst := openDecoder(t), make([]byte, 0, MaxChunk)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := len(plain)
			if h, err := parseHeader(c.file); err == nil {
				n = h.plain
			}
			for _, into := range [][]byte{nil, dst} {
				got, err := decodeChunk(into, c.file, hashOf(plain), n, dec)
				var damaged *DamagedError
				if !errors.As(err, &damaged) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%d bytes, error %v, want damage: %s", len(got), err, c.want)
				}
			}
		})
	}
}

// FuzzEncode: a chunk decodes to the bytes that were encoded.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("x"), 3)
	f.Add(bytes.Repeat([]byte("text "), 1000), 0)
	f.Add(make([]byte, 100_000), MaxChunk)
	dec := openDecoder(f)
	f.Fuzz(func(t *testing.T, plain []byte, room int) {
		if len(plain) < 1 || len(plain) > MaxChunk {
			return
		}
		memory := make([]byte, 0, min(max(room, 0), packedMax(MaxChunk)))
		head, payload := encodeChunk(memory, plain)
		got, err := decodeChunk(nil, append(head[:], payload...), hashOf(plain), len(plain), dec)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes became %d, error %v", len(plain), len(got), err)
		}
	})
}

func FuzzChunk(f *testing.F) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, plain := range [][]byte{[]byte("x"), bytes.Repeat([]byte("text "), 1000), make([]byte, MaxChunk)} {
		head, payload := encodeChunk(nil, plain)
		f.Add(append(head[:], payload...))
		f.Add(chunkFile(codecZstd, len(plain), enc.EncodeAll(plain, nil)))
	}
	f.Add([]byte("SSC1\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Add(chunkFile(codecS2, MaxChunk, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x00}))
	f.Add(chunkFile(codecS2, 64, []byte{64, 0x00, 'x', 62<<2 | 2, 1, 0}))
	dec, dst := openDecoder(f), make([]byte, 0, MaxChunk)
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := parseHeader(file)
		if err != nil {
			return
		}
		if h.plain > MaxChunk || h.stored != len(file)-chunkHeader {
			t.Fatalf("header %+v of %d bytes", h, len(file))
		}
		// The file is not the chunk of another hash, for any bytes.
		if _, err := decodeChunk(nil, file, Hash{1}, h.plain, dec); err == nil {
			t.Fatal("accepted under a hash that nothing has")
		}
		plain, err := unpackPayload(nil, file[chunkHeader:], h, dec)
		if err == nil && len(plain) > MaxChunk {
			t.Fatalf("%d bytes came out", len(plain))
		}
		// The previous content of the memory does not show.
		again, failed := unpackPayload(dst, file[chunkHeader:], h, dec)
		if (err == nil) != (failed == nil) || err == nil && !bytes.Equal(plain, again) {
			t.Fatalf("%d bytes and %v, into used memory %d bytes and %v", len(plain), err, len(again), failed)
		}
	})
}
