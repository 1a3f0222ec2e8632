// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// goEcho is gen_echo_test.go: a backend that reports its arguments and its answers, in the words of
// gen_roundtrip.c.
func goEcho(t *api.Table) ([]byte, error) {
	w := newFile()
	w.line("")
	w.line("package dispatch")
	for c := range t.Calls {
		if c.Shipped() {
			writeEcho(w, c)
		}
	}
	return w.goSource()
}

func writeEcho(w *text, c *api.Call) {
	posted := c.Kind == api.Async || c.Kind == api.Counted
	w.line("")
	w.line("func (x *echo) %s {", goSignature(c))
	w.line("\tx.begin(%q, c)", c.Symbol)
	for _, a := range c.Args {
		switch {
		case isShimHandle(a):
		case a.Dir == api.Out:
			if a.Opt {
				w.line("\tx.wanted(%q, %s)", a.Name, wantParameter(a))
			}
		default:
			writeEchoed(w, a, goName(a.Name), a.Opt)
		}
	}
	w.line("\tr = x.result(%t)", posted)
	for _, a := range c.Args {
		if isAnswered(a) {
			inventAnswer(w, a)
		}
	}
	if !c.Always {
		w.line("\tif %s {", successCondition(c, "r"))
	} else {
		w.line("\t{")
	}
	for _, a := range c.Args {
		if !isOutput(a) {
			continue
		}
		name := goName(a.Name)
		if a.Dir == api.InOut {
			name += "Out"
		}
		if a.Opt {
			w.line("\tif %s {", wantParameter(a))
			writeEchoed(w, a, name, false)
			w.line("\t}")
			continue
		}
		writeEchoed(w, a, name, false)
	}
	w.line("\t}")
	w.line("\tx.end()")
	w.line("\treturn")
	w.line("}")
}

func writeEchoed(w *text, a api.Arg, name string, opt bool) {
	switch {
	case a.Type.Word == "text" || a.Type.Word == "string":
		w.line("\tx.array(%q, []byte(%s), len(%s), %t && %s == \"\")", a.Name, name, name, opt, name)
	case a.Count.IsArray() && goType(a.Type) == "uint8":
		w.line("\tx.array(%q, %s, len(%s), %t && %s == nil)", a.Name, name, name, opt, name)
	case a.Count.IsArray():
		w.line("\tx.array(%q, encodeWith(func(e *encoder) { for _, v := range %s { %s } }), len(%s), %t && %s == nil)",
			a.Name, name, toBytes(a.Type, "v"), name, opt, name)
	default:
		w.line("\tx.field(%q, encodeWith(func(e *encoder) { %s }))", a.Name, toBytes(a.Type, name))
	}
}

// inventAnswer fills in an answer, at random.
func inventAnswer(w *text, a api.Arg) {
	name := goName(a.Name)
	if a.Dir == api.InOut {
		name += "Out"
	}
	value := fmt.Sprintf("x.u64(%d)", a.Type.ElementSize())
	switch {
	case a.Type.Word == "text":
		w.line("\t%s = x.text(%s)", name, roomOf(a))
	case a.Count.IsArray():
		w.line("\t%s = inventValues(x, %s, %d, %s)", name, roomOf(a), a.Type.ElementSize(), getterOf(a.Type))
	case a.Type.Struct:
		w.line("\t%s = get%s(x.bytes(%d))", name, goType(a.Type), a.Type.Size)
	case a.Type.Wire == "f32" || a.Type.Wire == "f64":
		w.line("\t%s = get%s(x.bytes(%d))", name, goTitle(a.Type.Wire), a.Type.Size)
	default:
		w.line("\t%s = %s(%s)", name, goType(a.Type), value)
	}
}
