// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
)

// ErrProtocol means that the peer does not speak this protocol, or does not know the secret.
var ErrProtocol = errors.New("not a member")

const (
	helloMagic = "SNGMEET\x01"
	helloSize  = len(helloMagic) + 16 + 32
	answerSize = 32 + sha256.Size
	maxReply   = 16 << 20 // bytes; a roster of the largest size has no more
)

// authenticatedConn is a connection after its ends have exchanged their challenges.
type authenticatedConn struct {
	conn       net.Conn
	secret     []byte
	challenges []byte // the rank's, then the host's
}

func (t *authenticatedConn) authCodeFor(who string, said []byte) []byte {
	return collective.AuthCode(t.secret, []byte(who), t.challenges, said)
}

// rankAnnouncement is the announcement of a rank.
type rankAnnouncement struct {
	size, rank int
	server     int // the number of its server
	address    string
}

// callHost begins the handshake on the rank's side.
func callHost(conn net.Conn, nonce, secret []byte) (*authenticatedConn, error) {
	hello := append([]byte(helloMagic), nonce...)
	hello = append(hello, make([]byte, 32)...)
	rand.Read(hello[len(hello)-32:]) //nolint:errcheck // crypto/rand's Read never fails
	if _, err := conn.Write(hello); err != nil {
		return nil, err
	}
	var answer [answerSize]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, err
	}
	t := &authenticatedConn{conn, secret, append(hello, answer[:32]...)}
	if !hmac.Equal(answer[32:], t.authCodeFor("host", nil)) {
		return nil, fmt.Errorf("%w: it does not know the secret", ErrProtocol)
	}
	return t, nil
}

func (t *authenticatedConn) announceRank(h rankAnnouncement) error {
	b := binary.LittleEndian.AppendUint32(nil, uint32(h.size))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.rank))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.server))
	b = appendAddress(b, h.address)
	_, err := t.conn.Write(append(b, t.authCodeFor("rank", b)...))
	return err
}

// greetRank begins the handshake on the host's side. It returns the nonce of the identity, and the rank's
// announcement.
func greetRank(conn net.Conn, secret func(nonce []byte) []byte) (nonce []byte, t *authenticatedConn, h rankAnnouncement, err error) {
	hello := make([]byte, helloSize, helloSize+32)
	if _, err := io.ReadFull(conn, hello); err != nil {
		return nil, nil, h, err
	}
	if string(hello[:len(helloMagic)]) != helloMagic {
		return nil, nil, h, ErrProtocol
	}
	nonce = hello[len(helloMagic):][:16]
	var challenge [32]byte
	rand.Read(challenge[:]) //nolint:errcheck // crypto/rand's Read never fails
	t = &authenticatedConn{conn, secret(nonce), append(hello, challenge[:]...)}
	if _, err := conn.Write(append(challenge[:], t.authCodeFor("host", nil)...)); err != nil {
		return nil, nil, h, err
	}
	b := make([]byte, 14)
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, nil, h, err
	}
	rest := make([]byte, int(binary.LittleEndian.Uint16(b[12:]))+sha256.Size)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return nil, nil, h, err
	}
	address := rest[:len(rest)-sha256.Size]
	if !hmac.Equal(rest[len(address):], t.authCodeFor("rank", append(b, address...))) {
		return nil, nil, h, fmt.Errorf("%w: it does not know the secret", ErrProtocol)
	}
	h = rankAnnouncement{int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:])), int(int32(binary.LittleEndian.Uint32(b[8:]))), string(address)}
	return nonce, t, h, nil
}

// replyEnding tells a rank how the gathering ended.
func (t *authenticatedConn) replyEnding(g *gathering) error {
	b := make([]byte, 4, 128)
	if g.err != nil {
		b = append(append(b, 0), g.err.Error()...)
	} else {
		b = append(append(b, 1), g.nonce[:]...)
		for rank, a := range g.addresses {
			b = binary.LittleEndian.AppendUint32(b, uint32(g.servers[rank]))
			b = appendAddress(b, a)
		}
	}
	b = append(b, t.authCodeFor("end", b[4:])...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	_, err := t.conn.Write(b)
	return err
}

// gatheringResult is the result of a gathering.
type gatheringResult struct {
	nonce     []byte
	addresses []string // by rank
	servers   []int    // by rank
}

// readReply waits for the reply.
func (t *authenticatedConn) readReply(size int) (gatheringResult, error) {
	var head [4]byte
	if _, err := io.ReadFull(t.conn, head[:]); err != nil {
		return gatheringResult{}, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n < 1+sha256.Size || n > maxReply {
		return gatheringResult{}, ErrProtocol
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(t.conn, b); err != nil {
		return gatheringResult{}, err
	}
	said := b[:len(b)-sha256.Size]
	if !hmac.Equal(b[len(said):], t.authCodeFor("end", said)) {
		return gatheringResult{}, ErrProtocol
	}
	return parseEnd(said, size)
}

// parseEnd parses a reply.
func parseEnd(b []byte, size int) (e gatheringResult, err error) {
	switch {
	case len(b) < 1 || b[0] > 1 || b[0] == 1 && len(b) < 33:
		return gatheringResult{}, ErrProtocol
	case b[0] == 0:
		return gatheringResult{}, fmt.Errorf("%w: %q", ErrFailed, b[1:])
	}
	e.nonce, b = b[1:33], b[33:]
	for range size {
		if len(b) < 6 {
			return gatheringResult{}, ErrProtocol
		}
		n := int(binary.LittleEndian.Uint16(b[4:]))
		if len(b) < 6+n {
			return gatheringResult{}, ErrProtocol
		}
		e.servers = append(e.servers, int(int32(binary.LittleEndian.Uint32(b))))
		e.addresses = append(e.addresses, string(b[6:6+n]))
		b = b[6+n:]
	}
	if len(b) > 0 {
		return gatheringResult{}, ErrProtocol
	}
	return e, nil
}

// ErrFailed means that the gathering failed; the host's reason follows.
var ErrFailed = errors.New("the meeting failed")

func appendAddress(b []byte, a string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(a)))
	return append(b, a...)
}
