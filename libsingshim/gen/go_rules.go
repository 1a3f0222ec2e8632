// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// goRules is gen_rules.go of package replay.
func goRules(t *api.Table) ([]byte, error) {
	w := newFile()
	w.line("")
	w.line("package replay")
	w.line("")
	w.line("var owners = map[Class]Class{")
	for _, h := range t.Types {
		if h.Handle && h.Of != "" {
			w.line("\t%q: %q,", h.Word, h.Of)
		}
	}
	w.line("}")
	w.line("")
	w.line("var rules = map[uint32]Rule{")
	for c := range t.Calls {
		if !c.Shipped() {
			continue
		}
		w.line("\t%#x: {", c.Op())
		w.line("\t\tSymbol: %q,", c.Symbol)
		// By hand, or posted: the call lasts if it makes, changes or breaks an object that is no result of work.
		lasting := c.Kind == api.Stateful || c.Kind == api.Aware && c.Effect()
		for _, f := range []struct {
			name string
			is   bool
		}{{"Stateful", lasting}, {"Replaces", c.Replaces}, {"Always", c.Always}, {"Context", !c.Free}} {
			if f.is {
				w.line("\t\t%s: true,", f.name)
			}
		}
		if c.Changes != "" {
			w.line("\t\tChanges: %q,", c.Changes)
		}
		w.line("\t\tArgs: []Arg{")
		for _, a := range c.Args {
			ruleArg(w, a)
		}
		w.line("\t\t},")
		w.line("\t},")
	}
	w.line("}")
	return w.goSource()
}

func ruleArg(w *text, a api.Arg) {
	fields := []string{fmt.Sprintf("Name: %q, Size: %d", a.Name, max(a.Type.ElementSize(), 1))}
	add := func(is bool, form string, args ...any) {
		if is {
			fields = append(fields, fmt.Sprintf(form, args...))
		}
	}
	add(isShimHandle(a) || a.Dir != api.Out, "In: true")
	add(isAnswered(a), "Out: true")
	add(a.Opt && !isShimHandle(a), "Opt: true")
	add(a.Count.IsArray() || a.Type.Word == "string", "Array: true")
	add(a.Type.Word == "enum" && a.Dir == api.In && !a.Count.IsArray(), "Enum: true")
	if a.Type.Handle {
		add(a.Verb != api.None, "Verb: %s", goTitle(string(a.Verb)))
		add(true, "Class: %q", a.Type.Word)
	}
	var within []string
	for _, f := range a.Type.Fields {
		if f.Type.Handle && f.Type.Maker != api.ByRefusal && f.N == 0 && f.Type.Size == 8 {
			within = append(within, fmt.Sprintf("{%d, %q}", f.Offset, f.Type.Word))
		}
	}
	add(within != nil && a.Dir != api.Out, "Within: []Field{%s}", strings.Join(within, ", "))
	w.line("\t\t\t{%s},", strings.Join(fields, ", "))
}
