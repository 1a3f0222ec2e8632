// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is returned for bytes that are no message of that op.
var ErrMalformed = errors.New("not a message of that call")

// Ref is a handle in a call, with the effect of the call on the handle's object.
type Ref struct {
	Verb  Verb
	Class Class
	Value uint64
}

// reader decodes a message or an answer.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) takeBytes(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) takeNumber(size int) uint64 {
	var n uint64
	for i, b := range r.takeBytes(size) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

// takeElements returns the bytes of an argument's elements, or nil if the argument is absent.
func (r *reader) takeElements(a *Arg, opt bool) []byte {
	if !a.Array {
		if opt && r.takeNumber(1) == 0 {
			r.takeBytes(a.Size)
			return nil
		}
		return r.takeBytes(a.Size)
	}
	n := r.takeNumber(8)
	if opt && n == 1<<64-1 {
		return nil
	}
	if n > uint64(len(r.rest)/a.Size) {
		r.bad = true
		return nil
	}
	return r.takeBytes(int(n) * a.Size)
}

// Refs returns the handles in the message in and the answer out of a call that succeeded. It leaves out
// handles that name no object of their own: 0, and the streams 1 and 2, which every context has.
func Refs(op uint32, in, out []byte) ([]Ref, error) {
	refs, _, err := readRefs(op, in, out)
	return refs, err
}

// device is the table's name for an argument that says which device a call sets. Calls that set different
// devices do not replace each other.
const device = "dev"

// readRefs also returns the enumerations, and the device.
func readRefs(op uint32, in, out []byte) (refs []Ref, enums []byte, err error) {
	rule, ok := Look(op)
	if !ok {
		return nil, nil, fmt.Errorf("op %#x: %w", op, ErrMalformed)
	}
	there, back := reader{rest: in}, reader{rest: out}
	wanted := make([]bool, len(rule.Args))
	var inner Call
	for i := range rule.Args {
		a := &rule.Args[i]
		wanted[i] = a.Out
		switch {
		case a.In:
			b := there.takeElements(a, a.Opt)
			refs = a.appendRefs(refs, b)
			if rule.Symbol == captured {
				inner.noteInner(a.Name, b)
			}
			if a.Enum || a.Name == device {
				enums = append(enums, b...)
			}
		case a.Opt:
			wanted[i] = there.takeNumber(1) != 0
		}
	}
	for _, arrays := range []bool{true, false} {
		for i := range rule.Args {
			if a := &rule.Args[i]; wanted[i] && a.Array == arrays && len(out) > 0 {
				b := back.takeElements(a, false)
				refs = a.appendRefs(refs, b)
				if rule.Symbol == captured {
					inner.noteInner(a.Name, b)
				}
			}
		}
	}
	if there.bad || back.bad || len(there.rest) > 0 || len(back.rest) > 0 {
		return nil, nil, fmt.Errorf("%s: %w", rule.Symbol, ErrMalformed)
	}
	if rule.Symbol == captured {
		if refs, err = inner.addInnerRefs(refs); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", rule.Symbol, err)
		}
	}
	return refs, enums, nil
}

// captured is the symbol of the message for a captured call, which has become a node of a graph. The message
// of the captured call is inside of it.
const captured = "captured"

// noteInner sets a field of the captured call from an argument of the message.
func (c *Call) noteInner(arg string, b []byte) {
	switch arg {
	case "op":
		r := reader{rest: b}
		c.Op = uint32(r.takeNumber(4))
	case "args":
		c.In = b
	case "answer":
		c.Out = b
	}
}

// addInnerRefs adds the handles in the captured call, because the node needs their objects. A node needs even
// the stream, which may end before the node: when the call is made again, the server finds the node's context by
// the stream.
func (c *Call) addInnerRefs(refs []Ref) ([]Ref, error) {
	if rule, ok := Look(c.Op); !ok || rule.Symbol == captured {
		return nil, ErrMalformed
	}
	named, err := Refs(c.Op, c.In, c.Out)
	for _, r := range named {
		if r.Verb != Make {
			r.Verb = Use
		}
		refs = append(refs, r)
	}
	return refs, err
}

func (a *Arg) appendRefs(to []Ref, b []byte) []Ref {
	if a.Class == "" && a.Within == nil {
		return to
	}
	for ; len(b) >= a.Size; b = b[a.Size:] {
		if a.Class != "" {
			r := reader{rest: b}
			to = appendNamed(to, Ref{a.Verb, a.Class, r.takeNumber(a.Size)})
		}
		for _, f := range a.Within {
			to = appendNamed(to, Ref{Use, f.Class, binary.LittleEndian.Uint64(b[f.Offset:])})
		}
	}
	return to
}

func appendNamed(to []Ref, r Ref) []Ref {
	if r.Value == 0 || r.Class == "stream" && r.Value <= 2 {
		return to
	}
	return append(to, r)
}
