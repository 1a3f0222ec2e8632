// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrProtocol is wrapped by all errors about the bytes of a peer.
var ErrProtocol = errors.New("protocol error")

// frameKind is the kind of a frame.
type frameKind uint8

const (
	frameReady  frameKind = iota + 1 // I have room for this message: size bytes in all
	frameData                        // size bytes of a message follow, the next bytes of that message
	frameEager                       // size bytes follow, a whole message, sent without a ready
	frameCredit                      // size eager messages were taken
	frameAbort                       // the communicator is dead; size bytes follow: why
	frameBye                         // I am leaving, and have sent everything
)

const (
	headerSize = 40
	maxFrame   = 256 << 10 // bytes of a message in a frame
	maxEager   = 16 << 10  // bytes of a message that is sent at once
	maxReason  = 512
	maxMessage = 1 << 48
	window     = 32 // eager messages that the other side has not taken yet
)

// key names a message on a connection. For collectives seq is the operation's number and src and dst
// are noRank; for Send and Recv seq counts the messages from rank src to rank dst.
type key struct {
	seq      uint64
	src, dst uint32
	part     uint32
}

const noRank = 1<<32 - 1

func (k key) String() string {
	if k.src == noRank {
		return fmt.Sprintf("collective %d, part %d", k.seq, k.part)
	}
	return fmt.Sprintf("message %d from rank %d to rank %d", k.seq, k.src, k.dst)
}

// header is the start of every frame, little endian:
//
//	 0  kind   u8, three zero bytes
//	 4  check  u32   the operation's signature
//	 8  seq    u64
//	16  src    u32
//	20  dst    u32
//	24  part   u32, four zero bytes
//	32  size   u64
type header struct {
	kind  frameKind
	check uint32
	key   key
	size  uint64
}

func (h header) appendTo(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, byte(h.kind), 0, 0, 0)
	b = le.AppendUint32(b, h.check)
	b = le.AppendUint64(b, h.key.seq)
	b = le.AppendUint32(b, h.key.src)
	b = le.AppendUint32(b, h.key.dst)
	b = le.AppendUint32(b, h.key.part)
	b = le.AppendUint32(b, 0)
	return le.AppendUint64(b, h.size)
}

// sizes are the limits of the size field in a frame of each kind.
var sizes = map[frameKind]struct{ least, most uint64 }{
	frameReady:  {1, maxMessage},
	frameData:   {1, maxFrame},
	frameEager:  {1, maxEager},
	frameCredit: {1, window},
	frameAbort:  {0, maxReason},
	frameBye:    {0, 0},
}

// parseHeader is the inverse of appendTo. For bytes that appendTo does not make, it returns an
// error wrapping ErrProtocol.
func parseHeader(b *[headerSize]byte) (header, error) {
	le := binary.LittleEndian
	h := header{
		kind:  frameKind(b[0]),
		check: le.Uint32(b[4:]),
		key:   key{le.Uint64(b[8:]), le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:])},
		size:  le.Uint64(b[32:]),
	}
	limits, known := sizes[h.kind]
	switch {
	case !known:
		return header{}, fmt.Errorf("%w: frame of kind %d", ErrProtocol, h.kind)
	case b[1]|b[2]|b[3] != 0 || le.Uint32(b[28:]) != 0:
		return header{}, fmt.Errorf("%w: reserved bytes are not zero", ErrProtocol)
	case h.size < limits.least || h.size > limits.most:
		return header{}, fmt.Errorf("%w: frame of kind %d says %d bytes", ErrProtocol, h.kind, h.size)
	case (h.key.src == noRank) != (h.key.dst == noRank):
		return header{}, fmt.Errorf("%w: ranks %d and %d", ErrProtocol, h.key.src, h.key.dst)
	case h.kind > frameEager && (h.check != 0 || h.key != key{}):
		return header{}, fmt.Errorf("%w: frame of kind %d names a message", ErrProtocol, h.kind)
	}
	return h, nil
}
