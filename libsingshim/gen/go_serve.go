// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// goServe is gen_serve.go: from bytes to the interface and back.
func goServe(t *api.Table) ([]byte, error) {
	w := newFile()
	w.line("")
	w.line("package dispatch")
	w.line("")
	w.line("var ops = map[uint32]Info{")
	for c := range t.Calls {
		if c.Shipped() {
			posted := c.Kind == api.Async || c.Kind == api.Counted
			w.line("\t%#x: {%q, %t, %t, %t, serve%s},", c.Op(), c.Symbol, posted, c.Kind == api.Counted, c.PerThread != "", goMethod(c))
		}
	}
	w.line("}")
	for c := range t.Calls {
		if c.Shipped() {
			writeServe(w, c)
		}
	}
	return w.goSource()
}

func writeServe(w *text, c *api.Call) {
	w.line("")
	w.line("func serve%s(b Backend, c *Call, d *decoder, e *encoder) Result {", goMethod(c))
	args, results := []string{"c"}, []string{}
	for _, a := range c.Args {
		name := goName(a.Name)
		switch {
		case a.Dir == api.Out && !isShimHandle(a):
			results = append(results, name)
			if a.Opt {
				w.line("\t%s := d.readPresence()", wantParameter(a))
				args = append(args, wantParameter(a))
			}
		default:
			writeDecode(w, a)
			args = append(args, name)
			if a.Dir == api.InOut {
				results = append(results, name+"Out")
			}
		}
	}
	writeLimits(w, c)
	w.line("\tif !d.checkEnd() {")
	w.line("\t\treturn 0")
	w.line("\t}")
	call := fmt.Sprintf("b.%s(%s)", goMethod(c), strings.Join(args, ", "))
	if len(results) == 0 {
		w.line("\treturn %s", call)
		w.line("}")
		return
	}
	w.line("\t%s, r := %s", strings.Join(results, ", "), call)
	if !c.Always {
		w.line("\tif !(%s) {", successCondition(c, "r"))
		w.line("\t\treturn r")
		w.line("\t}")
	}
	// In the order of the shim: arrays first, because the counts that give their lengths come out too.
	for _, arrays := range []bool{true, false} {
		for _, a := range c.Args {
			if isAnswered(a) && a.Count.IsArray() == arrays {
				writeEncode(w, a)
			}
		}
	}
	w.line("\treturn r")
	w.line("}")
}

func writeDecode(w *text, a api.Arg) {
	name := goName(a.Name)
	switch {
	case a.Type.Word == "string":
		w.line("\t%s := d.readText(%t)", name, a.Opt)
	case a.Count.IsArray() && a.Dir == api.In:
		if a.Type.Word == "bytes" || a.Type.Wire == "u8" && !a.Type.Handle {
			w.line("\t%s, _ := d.readArray(1, %t)", name, a.Opt)
			return
		}
		w.line("\t%s := readSlice(d, %d, %t, %s)", name, a.Type.ElementSize(), a.Opt, getterOf(a.Type))
	case a.Type.Struct && a.Opt:
		w.line("\tthere%s := d.readPresence()", goTitle(a.Name))
		w.line("\tvar %s %s", name, goType(a.Type))
		w.line("\tif s := d.readBytes(%d); s != nil && there%s {", a.Type.Size, goTitle(a.Name))
		w.line("\t\t%s = get%s(s)", name, goType(a.Type))
		w.line("\t}")
	case a.Type.Struct:
		w.line("\tvar %s %s", name, goType(a.Type))
		w.line("\tif s := d.readBytes(%d); s != nil {", a.Type.Size)
		w.line("\t\t%s = get%s(s)", name, goType(a.Type))
		w.line("\t}")
	case a.Type.Handle:
		w.line("\t%s := %s(d.read%s())", name, goType(a.Type), goTitle(a.Type.Wire))
	default:
		w.line("\t%s := d.read%s()", name, goTitle(a.Type.Wire))
	}
}

// roomOf is a Count in Go.
func roomOf(a api.Arg) string {
	if a.Count.Fixed > 0 {
		return fmt.Sprint(a.Count.Fixed)
	}
	return fmt.Sprintf("int64(%s)", goName(a.Count.Arg))
}

// writeLimits checks the counts, now that all arguments are there.
func writeLimits(w *text, c *api.Call) {
	asked := false
	for _, a := range c.Args {
		if !a.Count.IsArray() {
			continue
		}
		if a.Dir == api.In {
			there := "true"
			if a.Opt {
				there = goName(a.Name) + " != nil"
			}
			w.line("\td.checkCount(%q, len(%s), %s, %s)", a.Name, goName(a.Name), there, roomOf(a))
			continue
		}
		if !asked {
			w.line("\tvar total int64")
			asked = true
		}
		if a.Opt {
			w.line("\tif %s {", wantParameter(a))
			w.line("\t\td.checkRoom(%q, %s, %d, &total)", a.Name, roomOf(a), a.Type.ElementSize())
			w.line("\t}")
			continue
		}
		w.line("\td.checkRoom(%q, %s, %d, &total)", a.Name, roomOf(a), a.Type.ElementSize())
	}
}

func writeEncode(w *text, a api.Arg) {
	name := goName(a.Name)
	if a.Dir == api.InOut {
		name += "Out"
	}
	if a.Opt && a.Dir == api.Out {
		w.line("\tif %s {", wantParameter(a))
		defer w.line("\t}")
	}
	switch {
	case a.Type.Word == "text":
		w.line("\te.writeText(%s, %s)", name, roomOf(a))
	case a.Count.IsArray():
		w.line("\te.writeCount(%q, len(%s), %s)", a.Name, name, roomOf(a))
		if a.Type.Wire == "u8" && !a.Type.Handle {
			w.line("\te.out = append(e.out, %s...)", name)
			return
		}
		w.line("\tfor _, v := range %s {", name)
		w.line("\t\t%s", toBytes(a.Type, "v"))
		w.line("\t}")
	default:
		w.line("\t%s", toBytes(a.Type, name))
	}
}
