// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// wantParameter is the parameter that says whether an answer that may be NULL is wanted.
func wantParameter(a api.Arg) string { return "want" + goTitle(a.Name) }

// goSignature is the signature of a call in the interface, parameters and results.
func goSignature(c *api.Call) string {
	params, results := []string{"c *Call"}, []string{}
	for _, a := range c.Args {
		switch {
		case isShimHandle(a):
			params = append(params, goName(a.Name)+" "+goParameter(a))
		case a.Dir == api.Out:
			if a.Opt {
				params = append(params, wantParameter(a)+" bool")
			}
			results = append(results, goName(a.Name)+" "+goParameter(a))
		case a.Dir == api.InOut:
			params = append(params, goName(a.Name)+" "+goParameter(a))
			results = append(results, goName(a.Name)+"Out "+goParameter(a))
		default:
			params = append(params, goName(a.Name)+" "+goParameter(a))
		}
	}
	results = append(results, "r Result")
	return fmt.Sprintf("%s(%s) (%s)", goMethod(c), strings.Join(params, ", "), strings.Join(results, ", "))
}

// goBackend is gen_backend.go: the interface, by areas, and a backend that supports no call.
func goBackend(t *api.Table) ([]byte, error) {
	w := newFile()
	w.line("")
	w.line("package dispatch")
	w.line("")
	w.line("// Backend carries calls out. All of its methods may be called concurrently. Slices and strings that it is")
	w.line("// handed are its own; what it returns is read at once. An argument that may be NULL is nil, or \"\", or comes with a want.")
	w.line("type Backend interface {")
	for _, a := range t.Areas {
		if isShipped(a) {
			w.line("\t%s", areaName(a))
		}
	}
	w.line("}")
	for _, a := range t.Areas {
		if !isShipped(a) {
			continue
		}
		w.line("")
		w.line("// %s is %s.", areaName(a), strings.ToLower(a.Title[:1])+a.Title[1:])
		w.line("type %s interface {", areaName(a))
		for _, c := range a.Calls {
			if c.Shipped() {
				w.line("\t// %s: %s.", c.Symbol, c.Kind)
				w.line("\t%s", goSignature(c))
			}
		}
		w.line("}")
	}
	w.line("")
	w.line("// Unsupported is a Backend that supports no call. A Backend that supports only some calls embeds Unsupported.")
	w.line("type Unsupported struct{}")
	w.line("")
	w.line("var _ Backend = Unsupported{}")
	for c := range t.Calls {
		if !c.Shipped() {
			continue
		}
		w.line("")
		w.line("// %s is not supported.", goMethod(c))
		w.line("func (Unsupported) %s { r = %d; return }", goSignature(c), failing[c.Area.Lib].unsupported)
	}
	return w.goSource()
}

func areaName(a *api.Area) string { return goTitle(a.Name) + "Calls" }

func isShipped(a *api.Area) bool {
	for _, c := range a.Calls {
		if c.Shipped() {
			return true
		}
	}
	return false
}
