// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"fmt"
	"io"
)

// tokenSize is the length of a token in hexadecimal.
const tokenSize = 64

type frameKind byte

const (
	frameData frameKind = 0
	frameSize frameKind = 1
)

// maxFrame is the most that a frame carries.
const maxFrame = 4096

func writeFrame(w io.Writer, kind frameKind, b []byte) error {
	head := binary.BigEndian.AppendUint16([]byte{byte(kind)}, uint16(len(b)))
	_, err := w.Write(append(head, b...))
	return err
}

// readFrame reads a frame. The bytes are valid until the next call with the same buffer.
func readFrame(r io.Reader, buf *[maxFrame]byte) (frameKind, []byte, error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind, n := frameKind(head[0]), int(binary.BigEndian.Uint16(head[1:]))
	if n > maxFrame || kind > frameSize || kind == frameSize && n != 4 {
		return 0, nil, fmt.Errorf("frame of kind %d with %d bytes", kind, n)
	}
	_, err := io.ReadFull(r, buf[:n])
	return kind, buf[:n], err
}

// windowSize is the content of a frame of kind frameSize.
type windowSize struct{ rows, columns uint16 }

func (s windowSize) encode() []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.rows), s.columns)
}

func decodeSize(b []byte) windowSize {
	return windowSize{binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])}
}
