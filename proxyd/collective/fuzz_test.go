// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"testing"
)

// FuzzHeader: every header that is accepted is written again unchanged, and stays within its bounds.
func FuzzHeader(f *testing.F) {
	f.Add(header{frameReady, 7, key{1, noRank, noRank, 2}, 1 << 40}.appendTo(nil))
	f.Add(header{kind: frameBye}.appendTo(nil))
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		var raw [headerSize]byte
		copy(raw[:], b)
		h, err := parseHeader(&raw)
		if err != nil {
			return
		}
		if got := h.appendTo(nil); !bytes.Equal(got, raw[:]) {
			t.Errorf("%x came back as %x", raw, got)
		}
		if h.kind != frameReady && h.size > maxFrame {
			t.Errorf("a header with a payload of %d bytes was accepted", h.size)
		}
	})
}

// feed is a connection that yields the bytes of a peer.
type feed struct {
	net.Conn
	io.Reader
}

func (f feed) Read(b []byte) (int, error) { return f.Reader.Read(b) }

// FuzzFrames: for any bytes of a peer, the reader ends, writes only where a message is expected,
// and holds no more than its bound.
func FuzzFrames(f *testing.F) {
	coll := func(seq uint64, part uint32) key { return key{seq, noRank, noRank, part} }
	letter := key{seq: 0, src: 1, dst: 0}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	zero := func(n int) []byte { return make([]byte, n) }
	f.Add(join(joinFrames(header{frameData, 0, letter, 60}), zero(60), joinFrames(header{frameData, 0, letter, 40}), zero(40)))
	f.Add(join(joinFrames(header{frameEager, 9, coll(0, 0), 10}), zero(10), joinFrames(header{frameReady, 9, coll(0, 1), 50})))
	f.Add(join(joinFrames(header{frameEager, 9, coll(5, 0), 3}), zero(3), joinFrames(header{kind: frameBye})))
	f.Add(joinFrames(header{kind: frameCredit, size: 1}, header{kind: frameAbort}))
	f.Fuzz(func(t *testing.T, b []byte) {
		const rooms = 4
		l := newLink(1, feed{Reader: bytes.NewReader(b)}, rooms, func(error) {})
		guard := byte(0xa5)
		memory := bytes.Repeat([]byte{guard}, 400)
		l.receiveMessage(newMessage(letter, 0, memory[100:150], memory[200:250]), false)
		l.receiveMessage(newMessage(coll(0, 0), 9, memory[300:310]), true)
		l.sendMessage(newMessage(coll(0, 1), 9, zero(50)), false)
		l.readFrames()
		for i, v := range memory {
			inside := i >= 100 && i < 150 || i >= 200 && i < 250 || i >= 300 && i < 310
			if !inside && v != guard {
				t.Fatalf("byte %d outside of the message was written", i)
			}
		}
		if len(l.early) > window || len(l.ready) > rooms || len(l.bulk) > 1 || len(l.control) > 2*headerSize+len(b) {
			t.Fatalf("the link holds more than its bounds: %d early, %d ready, %d bulk, %d bytes of control", len(l.early), len(l.ready), len(l.bulk), len(l.control))
		}
	})
}

// FuzzStranger: a peer without the key is refused, whatever it sends, and the listener sends at most its
// answer.
func FuzzStranger(f *testing.F) {
	k := bytes.Repeat([]byte{1}, 32)
	hi := newHello(makeTag(k, "x"), 1, 0)
	f.Add(hi.raw[:], make([]byte, sha256.Size))
	f.Add([]byte(magic), []byte{})
	f.Fuzz(func(t *testing.T, first, proof []byte) {
		var said bytes.Buffer
		conn := dialogue{feed{Reader: io.MultiReader(bytes.NewReader(first), bytes.NewReader(proof))}, &said}
		h, err := readHello(conn)
		if err == nil {
			err = examineHello(conn, k, h)
		}
		if err == nil {
			t.Error("a connection without the key was admitted")
		}
		if said.Len() > answerSize {
			t.Errorf("a connection without the key was answered with %d bytes, want at most %d", said.Len(), answerSize)
		}
	})
}

type dialogue struct {
	feed
	said *bytes.Buffer
}

func (d dialogue) Write(b []byte) (int, error) { return d.said.Write(b) }
