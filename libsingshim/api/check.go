// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"slices"
)

// Check looks for mistakes that the form alone does not show: that counts are there, that a kind
// fits its arguments, that no two rows have the same key. Check returns all errors, joined.
func (t *Table) Check() error {
	var errs []error
	for c := range t.Calls {
		for _, check := range []func(*Call) error{t.checkArgs, t.checkKind, t.checkVia} {
			if err := check(c); err != nil {
				errs = append(errs, &ParseError{c.File, c.Line, c.Symbol + ": " + err.Error()})
			}
		}
	}
	errs = append(errs, t.checkKeys(), t.checkOps(), t.checkClasses())
	return errors.Join(errs...)
}

func (t *Table) checkArgs(c *Call) error {
	for _, a := range c.Args {
		if err := checkForm(a); err != nil {
			return err
		}
		if a.Count.Arg != "" {
			if err := checkCount(a, c.Arg(a.Count.Arg)); err != nil {
				return err
			}
		}
		if a.Type.Maker == ByRefusal && a.Type.Handle && c.Kind != Refused && c.Kind != Planned {
			return fmt.Errorf("%s: a %s never exists", a.Name, a.Type.Word)
		}
		if c.Shipped() {
			if err := checkSent(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkForm(a Arg) error {
	switch a.Type.Word {
	case "text", "bytes":
		if !a.Count.IsArray() {
			return fmt.Errorf("%s has no length", a.Name)
		}
		if a.Type.Word == "text" && a.Dir != Out {
			return fmt.Errorf("%s: a text is handed out; string is what is handed in", a.Name)
		}
	case "string":
		if a.Dir != In || a.Count.IsArray() {
			return fmt.Errorf("%s: a string is handed in, alone", a.Name)
		}
	}
	if a.Verb == Make && a.Dir == InOut {
		return fmt.Errorf("%s: what is made is handed in or out", a.Name)
	}
	if a.Count.IsArray() && a.Dir == InOut {
		return fmt.Errorf("%s: an array is handed in or out", a.Name)
	}
	return nil
}

func checkCount(a Arg, n *Arg) error {
	if n == nil {
		return fmt.Errorf("%s: there is no %s to count it", a.Name, a.Count.Arg)
	}
	if n.Count.IsArray() || !slices.Contains([]string{"u32", "u64", "i32"}, n.Type.Wire) || n.Type.Handle {
		return fmt.Errorf("%s: %s is no number", a.Name, n.Name)
	}
	want := In
	if a.Count.Deref {
		want = InOut
	}
	if n.Dir != want {
		return fmt.Errorf("%s: %s must be %s to count it", a.Name, n.Name, want)
	}
	if a.Count.Deref && a.Dir != Out {
		return fmt.Errorf("%s: only what is handed out has a room", a.Name)
	}
	return nil
}

// checkSent is for arguments of messages.
func checkSent(a Arg) error {
	if !a.Type.Struct && a.Type.Wire == "" && a.Type.Word != "string" {
		return fmt.Errorf("%s: a %s cannot be sent", a.Name, a.Type.Word)
	}
	if a.Opt && a.Dir == InOut {
		return fmt.Errorf("%s: what goes both ways must be there", a.Name)
	}
	if a.Verb == Make && a.Type.Maker == ByClient && a.Count.IsArray() {
		return fmt.Errorf("%s: the shim makes handles one by one", a.Name)
	}
	return nil
}

// Effect tells whether the call has a lasting effect that a restore must repeat.
func (c *Call) Effect() bool {
	return c.Changes != "" || slices.ContainsFunc(c.Args, func(a Arg) bool {
		return a.Verb == Make || a.Verb == Change || a.Verb == Break
	})
}

func (t *Table) checkKind(c *Call) error {
	answers := slices.ContainsFunc(c.Args, func(a Arg) bool {
		return (a.Dir == Out || a.Dir == InOut) && (a.Verb != Make || a.Type.Maker != ByClient)
	})
	stream := slices.ContainsFunc(c.Args, func(a Arg) bool { return a.Type.Word == "stream" && a.Dir == In })
	switch {
	case (c.Kind == Async || c.Kind == Counted) && answers:
		return errors.New("what is posted has no answer")
	case c.Kind == Counted && (c.Arg("counts") == nil || c.Arg("counts").Count.Arg != "k"):
		return errors.New("counted, but it does not say for what: counts, and k of them")
	case c.Kind == Stateful && !c.Effect():
		return errors.New("stateful, but it makes, changes and breaks nothing")
	case (c.Kind == Sync || c.Kind == Cached) && c.Effect():
		return fmt.Errorf("%s, but it leaves something behind", c.Kind)
	case c.Kind == Cached && !answers:
		return errors.New("cached, but it answers nothing")
	case c.Unwritten && c.Kind != Local && c.Kind != Aware:
		return errors.New("unwritten is for what is written by hand")
	case c.Returns != "" && c.Kind != Local:
		return errors.New("only what is local returns something else")
	case c.Gone != 0 && c.Gone <= c.Version:
		return fmt.Errorf("gone in %d, before it came", c.Gone)
	case (c.Also == "") != (c.AlsoVersion == 0):
		return errors.New("also and at go together")
	case c.PerThread == "ptsz" && c.Generated() && !stream:
		return errors.New("ptsz, but there is no stream")
	case c.PerThread == "ptds" && stream:
		return errors.New("ptds, but there is a stream")
	case c.Message && !c.Shipped():
		return fmt.Errorf("a message cannot be %s", c.Kind)
	case c.Replaces && (!c.Shipped() || !c.Effect()):
		return errors.New("replaces, but it leaves nothing behind")
	case c.Always && !c.Shipped():
		return errors.New("always is for messages")
	}
	return nil
}

func (t *Table) checkVia(c *Call) error {
	for _, name := range c.Via {
		to := t.symbols[name]
		if to == nil {
			return fmt.Errorf("there is no %s", name)
		}
		if c.Kind == Aware && !to.Shipped() {
			return fmt.Errorf("%s is no message", name)
		}
		if c.Kind == Same && !sameArgs(c, to) {
			return fmt.Errorf("its arguments are not those of %s", name)
		}
	}
	return nil
}

func sameArgs(a, b *Call) bool {
	return a.PerThread == b.PerThread && slices.EqualFunc(a.Args, b.Args, func(x, y Arg) bool {
		return x.Type == y.Type && x.Dir == y.Dir && x.Count == y.Count && x.Opt == y.Opt
	})
}

func (t *Table) checkKeys() error {
	seen := map[Key]string{}
	var errs []error
	for _, e := range t.Entries() {
		if other, ok := seen[e.Key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s are both found as %s from %d", other, e.Symbol, e.Name, e.Version))
		}
		seen[e.Key] = e.Symbol
	}
	return errors.Join(errs...)
}

func (t *Table) checkOps() error {
	seen := map[uint32]string{}
	var errs []error
	for c := range t.Calls {
		if !c.Shipped() {
			continue
		}
		if other, ok := seen[c.Op()]; ok {
			errs = append(errs, fmt.Errorf("%s and %s have the same number: rename a message", other, c.Symbol))
		}
		seen[c.Op()] = c.Symbol
	}
	return errors.Join(errs...)
}

// checkClasses: a handle that can be made can be broken, or ends with another handle.
func (t *Table) checkClasses() error {
	made, broken := map[string]bool{}, map[string]bool{}
	for c := range t.Calls {
		for _, a := range c.Args {
			made[a.Type.Word] = made[a.Type.Word] || a.Verb == Make
			broken[a.Type.Word] = broken[a.Type.Word] || a.Verb == Break
		}
	}
	var errs []error
	for _, h := range t.Types {
		if !h.Handle || h.Maker == ByRefusal {
			continue
		}
		if broken[h.Word] && !made[h.Word] {
			errs = append(errs, fmt.Errorf("%s: broken, never made", h.Word))
		}
		if made[h.Word] && !broken[h.Word] && h.Of == "" {
			errs = append(errs, fmt.Errorf("%s: made, never broken", h.Word))
		}
	}
	return errors.Join(errs...)
}
