// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// ErrAuthentication means that the other end does not know the communicator's key.
var ErrAuthentication = errors.New("wrong key")

// The handshake. Both sides prove that they know the communicator's key, without sending the key:
//
//	dialler → listener   hello   magic 8, tag 16, from u32, to u32, nonce 32
//	listener → dialler   answer  nonce 32, MAC 32
//	dialler → listener   proof   MAC 32
//
// A MAC is HMAC-SHA-256 by the key over the side that speaks ("listener" or "dialler"), the hello
// and the answer's nonce. from and to are indices of processes. Later bytes on the connection are
// neither encrypted nor signed.
const (
	magic      = "SINGCOL\x01"
	tagSize    = 16
	nonceSize  = 32
	helloSize  = len(magic) + tagSize + 4 + 4 + nonceSize
	answerSize = nonceSize + sha256.Size
)

// tag names an attempt to make a communicator without telling its name or key.
type tag [tagSize]byte

func newKey() []byte {
	k := make([]byte, sha256.Size)
	rand.Read(k) //nolint:errcheck // crypto/rand's Read never fails
	return k
}

// AuthCode returns the HMAC-SHA256 of the parts, joined without marks between them.
func AuthCode(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p) //nolint:errcheck // a hash's Write never fails
	}
	return h.Sum(nil)
}

func makeTag(key []byte, id string) (t tag) {
	copy(t[:], AuthCode(key, []byte("tag"), []byte(id)))
	return t
}

// hello is a dialler's first message.
type hello struct {
	tag      tag
	from, to int
	raw      [helloSize]byte // nonce included
}

func newHello(t tag, from, to int) hello {
	h := hello{tag: t, from: from, to: to}
	b := append(h.raw[:0], magic...)
	b = append(b, t[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(from))
	b = binary.LittleEndian.AppendUint32(b, uint32(to))
	rand.Read(h.raw[len(b):]) //nolint:errcheck // crypto/rand's Read never fails
	return h
}

func readHello(r io.Reader) (h hello, err error) {
	if _, err := io.ReadFull(r, h.raw[:]); err != nil {
		return h, err
	}
	if string(h.raw[:len(magic)]) != magic {
		return h, fmt.Errorf("%w: no hello", ErrProtocol)
	}
	b := h.raw[len(magic):]
	copy(h.tag[:], b)
	h.from = int(binary.LittleEndian.Uint32(b[tagSize:]))
	h.to = int(binary.LittleEndian.Uint32(b[tagSize+4:]))
	return h, nil
}

// introduceSelf is the dialler's side. The caller bounds its time by conn's deadline.
func introduceSelf(conn net.Conn, key []byte, h hello) error {
	if _, err := conn.Write(h.raw[:]); err != nil {
		return err
	}
	var answer [answerSize]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	nonce := answer[:nonceSize]
	if !hmac.Equal(answer[nonceSize:], AuthCode(key, []byte("listener"), h.raw[:], nonce)) {
		return ErrAuthentication
	}
	_, err := conn.Write(AuthCode(key, []byte("dialler"), h.raw[:], nonce))
	return err
}

// examineHello is the listener's side, after readHello.
func examineHello(conn net.Conn, key []byte, h hello) error {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) //nolint:errcheck // crypto/rand's Read never fails
	answer := append(nonce[:], AuthCode(key, []byte("listener"), h.raw[:], nonce[:])...)
	if _, err := conn.Write(answer); err != nil {
		return err
	}
	var proof [sha256.Size]byte
	if _, err := io.ReadFull(conn, proof[:]); err != nil {
		return err
	}
	if !hmac.Equal(proof[:], AuthCode(key, []byte("dialler"), h.raw[:], nonce[:])) {
		return ErrAuthentication
	}
	return nil
}
