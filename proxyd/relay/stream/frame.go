// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames. A link begins with a Hello of the forwarder, which the relay answers by a Welcome
// or by ConnectionEnd.
const (
	KindHello   Kind = iota + 1 // JSON: Hello
	KindWelcome                 // JSON: Welcome
	KindOver                    // JSON: Over. The connection has failed; the last frame of a link
	KindData                    // bytes
	KindUsed                    // 8 bytes, big endian: a position
	KindEnd                     // no more data follows
	KindOffer                   // JSON: Offer. Of a link for offers only
)

// Frame is the unit that a link carries: its kind, the number of its bytes in 4 bytes, big endian, and these bytes.
type Frame struct {
	Kind Kind
	Data []byte
	Used uint64
}

// Hello begins a link.
type Hello struct {
	Ticket   string   `json:"ticket"`         // admits the link; known to the relay from the node's daemon
	ID       string   `json:"id"`             // of the connection, chosen at random by the forwarder, or by the relay for a client's
	To       string   `json:"to"`             // address and port
	Opened   bool     `json:"open,omitempty"` // confirmed by the relay before: no new connection is made
	Over     string   `json:"over,omitempty"` // the connection has failed at the program's end, for this reason
	Position Position `json:"position"`
	// Offers says that the link is no connection's: the relay is to announce clients, by a frame with an Offer for each.
	Offers bool `json:"offers,omitempty"`
}

// Offer is a connection that a client outside has made to a port of the job. The forwarder takes the connection by a
// link of its own, with the name of the offer.
type Offer struct {
	ID   string `json:"id"`   // of the connection, chosen at random by the relay
	Port uint16 `json:"port"` // of the job
	From string `json:"from"` // address and port of the client
}

// Welcome says that the relay has the connection.
type Welcome struct {
	Position Position `json:"position"`
}

// ConnectionEnd has the reason why the connection does not exist any more.
type ConnectionEnd struct {
	Reason string `json:"reason"`
	Retry  bool   `json:"retry,omitempty"` // the relay does not admit the link now; another may be admitted
	Cause  Cause  `json:"cause,omitempty"` // of a connection that was never made
}

// Cause says with which error the program's connect() is to fail.
type Cause string

// The causes.
const (
	CauseRefused    Cause = "refused"    // by the other side
	CauseHost       Cause = "host"       // the other side's host cannot be reached
	CauseNetwork    Cause = "network"    // the other side's network cannot be reached
	CauseTime       Cause = "time"       // no answer in time
	CauseProhibited Cause = "prohibited" // by the relay
)

// maxJSON bounds frames of JSON.
const maxJSON = 4 << 10

// longestFrame returns the largest size of a frame's bytes.
func (k Kind) longestFrame() int {
	switch k {
	case KindHello, KindWelcome, KindOver, KindOffer:
		return maxJSON
	case KindData:
		return MaxData
	case KindUsed:
		return 8
	default:
		return 0
	}
}

// WriteFrame writes a frame.
func WriteFrame(w io.Writer, f *Frame) error {
	data := f.Data
	if f.Kind == KindUsed {
		data = binary.BigEndian.AppendUint64(nil, f.Used)
	}
	b := make([]byte, 0, 5+len(data))
	b = binary.BigEndian.AppendUint32(append(b, byte(f.Kind)), uint32(len(data)))
	_, err := w.Write(append(b, data...))
	return err
}

// ReadFrame reads a frame. It allocates no memory for a frame that is too long. An error wraps ErrProtocol if the bytes
// are no frame.
func ReadFrame(r io.Reader) (*Frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	f, n := &Frame{Kind: Kind(head[0])}, binary.BigEndian.Uint32(head[1:])
	exact := f.Kind == KindUsed || f.Kind == KindEnd
	if f.Kind < KindHello || f.Kind > KindOffer || n > uint32(f.Kind.longestFrame()) || exact && int(n) != f.Kind.longestFrame() {
		return nil, fmt.Errorf("%w: a frame of kind %d with %d bytes", ErrProtocol, f.Kind, n)
	}
	f.Data = make([]byte, n)
	if _, err := io.ReadFull(r, f.Data); err != nil {
		return nil, err
	}
	if f.Kind == KindUsed {
		f.Used, f.Data = binary.BigEndian.Uint64(f.Data), nil
	}
	return f, nil
}

// WriteJSON writes a frame of JSON.
func WriteJSON(w io.Writer, k Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFrame(w, &Frame{Kind: k, Data: b})
}

// Parse parses a frame of JSON. An error wraps ErrProtocol.
func (f *Frame) Parse(v any) error {
	if err := json.Unmarshal(f.Data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}
