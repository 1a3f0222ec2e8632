// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package replay knows which calls rebuild what a program's calls have built: which handle a call makes,
// changes or breaks, and what it depends on. Rules says it for each message, Refs reads the handles out of
// one, and Graph keeps, of everything that was called, what is needed for the handles that are still alive.
//
// It carries nothing out, and the memory behind addresses is not its business: values in, values out.
package replay

import (
	"maps"
	"slices"
)

// Class is a kind of handle, by the table's word: "stream", "module", …
type Class string

// Verb is what a call does to the object behind a handle. The zero Verb hands one out that exists.
type Verb string

// The verbs.
const (
	Use    Verb = "use"
	Make   Verb = "make"
	Change Verb = "change"
	Break  Verb = "break"
)

// Rule says what a message leaves behind.
type Rule struct {
	Symbol   string
	Stateful bool  // its effect must be there again after a restore
	Replaces bool  // a later one with the same Refs and enumerations makes it needless
	Always   bool  // its answer comes with failures too
	Context  bool  // it depends on the context that is current
	Changes  Class // what it changes without naming it: process, device, context
	Args     []Arg
}

// Arg is where an argument stands in a message and its answer. Elements of an array have a count before
// them, 8 bytes; what may be NULL has a byte. Arrays come first in an answer.
type Arg struct {
	Name    string
	In, Out bool // it is in the message, in the answer
	Opt     bool
	Array   bool
	Enum    bool // an enumeration that tells apart what a call that Replaces sets
	Size    int  // of an element, in bytes
	Verb    Verb
	Class   Class   // "" if it is no handle
	Within  []Field // the handles in a struct, which are used
}

// Field is a handle in a struct.
type Field struct {
	Offset int
	Class  Class
}

// Look returns the rule of an op; the bit for per-thread default streams does not matter.
func Look(op uint32) (Rule, bool) {
	rule, ok := rules[op&^(1<<31)]
	return rule, ok
}

// Ops are all that have rules.
func Ops() []uint32 { return slices.Collect(maps.Keys(rules)) }

// Owner is the class whose objects take those of this class with them, "" if there is none.
func Owner(c Class) Class { return owners[c] }

// Lasting tells whether a successful call of this op may be needed to build something again: whether Add is to be told of it. What
// only works on streams is not, nor what allocates memory. Captures are not looked at: where the shim makes graphs of
// them, no call of this kind is part of one.
// It is asked for every message: for nearly all of them one bit tells.
func Lasting(op uint32) bool {
	return perhaps[op%perhapsBits/64]&(1<<(op%64)) != 0 && lasting[op&^(1<<31)]
}

// perhaps has a bit for each op that is lasting, and for others that are the same modulo perhapsBits.
const perhapsBits = 1 << 16

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
