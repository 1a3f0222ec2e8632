// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package replay finds the calls that rebuild the objects of a program. Rules says which handles a
// message makes, changes or breaks, and which it depends on. Refs reads the handles out of a message. Graph
// keeps, of all calls, those that are needed for the handles that are still alive.
//
// The package carries no call out and does not save memory behind addresses: values go in, values come out.
package replay

import (
	"maps"
	"slices"
)

// Class is a kind of handle, by the table's name for it: "stream", "module", …
type Class string

// Verb is the effect of a call on the object of a handle. With the zero Verb, the call returns a handle of an
// existing object.
type Verb string

// The verbs.
const (
	Use    Verb = "use"
	Make   Verb = "make"
	Change Verb = "change"
	Break  Verb = "break"
)

// Rule describes the lasting effects of a message.
type Rule struct {
	Symbol   string
	Stateful bool  // a restore must repeat the effect
	Replaces bool  // a later call with the same Refs and enumerations makes this call needless
	Always   bool  // the answer comes with failures, too
	Context  bool  // the effect depends on the current context
	Changes  Class // the object that is changed without being named: process, device, context
	Args     []Arg
}

// Arg says where an argument is in a message and its answer. The elements of an array follow their count of 8
// bytes; a byte before a value that may be NULL says whether the value is there. Arrays come first in an
// answer.
type Arg struct {
	Name    string
	In, Out bool // in the message, in the answer
	Opt     bool
	Array   bool
	Enum    bool // an enumeration that names the setting which a call that Replaces sets
	Size    int  // of an element, in bytes
	Verb    Verb
	Class   Class   // "" if the argument is no handle
	Within  []Field // the handles in a struct, which the call uses
}

// Field is a handle in a struct.
type Field struct {
	Offset int
	Class  Class
}

// Look returns the rule of an op. The bit for per-thread default streams is ignored.
func Look(op uint32) (Rule, bool) {
	rule, ok := rules[op&^(1<<31)]
	return rule, ok
}

// Ops returns all ops that have rules.
func Ops() []uint32 { return slices.Collect(maps.Keys(rules)) }

// Owner returns the class of the objects that own objects of this class, "" if there is none. Owned objects
// end with their owner.
func Owner(c Class) Class { return owners[c] }

// Lasting tells whether a successful call of this op may be needed for a rebuild, so that Add must get the
// call. Calls that only queue work on streams are not needed, nor are calls that allocate memory. Lasting
// does not know about captures: the shim sends captured calls in messages of their own. The server calls
// Lasting for every message, so a single bit decides for nearly all ops.
func Lasting(op uint32) bool {
	return perhaps[op%perhapsBits/64]&(1<<(op%64)) != 0 && lasting[op&^(1<<31)]
}

// perhapsBits is how many bits perhaps has.
const perhapsBits = 1 << 16

// perhaps has a bit for each lasting op. The bit is also set for ops that are equal to a lasting op modulo
// perhapsBits.
var perhaps = func() (bits [perhapsBits / 64]uint64) {
	for op := range lasting {
		bits[op%perhapsBits/64] |= 1 << (op % 64)
	}
	return bits
}()

var lasting = func() map[uint32]bool {
	all := map[uint32]bool{}
	for op, rule := range rules {
		if rule.isLasting() {
			all[op] = true
		}
	}
	return all
}()

func (r *Rule) isLasting() bool {
	if r.Stateful && r.Changes != "" {
		return true
	}
	for i := range r.Args {
		switch a := &r.Args[i]; {
		case a.Class == "" || memory[a.Class]:
		case a.Verb == Make, a.Verb == Break, a.Verb == Change && r.Stateful, a.Verb == "" && a.Out:
			return true
		}
	}
	return false
}

// Find returns the op of a symbol.
func Find(symbol string) (uint32, bool) {
	for op, rule := range rules {
		if rule.Symbol == symbol {
			return op, true
		}
	}
	return 0, false
}
