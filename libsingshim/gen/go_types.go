// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// goTitle makes a Go name of a word, or of words that are joined by _.
func goTitle(word string) string {
	var all strings.Builder
	for part := range strings.SplitSeq(word, "_") {
		if part != "" {
			all.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return all.String()
}

// goMethod is the Go name of a call.
func goMethod(c *api.Call) string {
	if c.Message {
		return goTitle(c.Symbol)
	}
	return goTitle(strings.TrimPrefix(c.Symbol, "cu"))
}

// reserved are argument names that Go, or the generated code, uses otherwise.
var reserved = map[string]string{
	"type": "typ", "map": "mapping", "range": "addresses", "func": "function", "len": "size", "copy": "what",
	"c": "cc", "r": "rr", "b": "bb", "d": "dd", "e": "ee",
}

func goName(name string) string {
	if other := reserved[name]; other != "" {
		return other
	}
	return name
}

var goScalar = map[string]string{
	"u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64",
}

func goType(t *api.Type) string {
	switch {
	case t.Word == "string":
		return "string"
	case t.Handle || t.Struct:
		return goTitle(t.Word)
	}
	return goScalar[t.Wire]
}

// goParameter is the type of an argument in the interface; in and out are the same.
func goParameter(a api.Arg) string {
	switch {
	case a.Type.Word == "text":
		return "string"
	case a.Count.IsArray():
		return "[]" + goType(a.Type)
	}
	return goType(a.Type)
}

// goTypes is gen_types.go: handles, structs, results.
func goTypes(t *api.Table) ([]byte, error) {
	w := newFile()
	w.line("")
	w.line("package dispatch")
	w.line("")
	w.line("// Handles. Those that the shim makes up reach the server as arguments; the server makes up the others.")
	w.line("type (")
	for _, h := range t.Types {
		if h.Handle {
			w.line("\t// %s is a handle of %s.", goTitle(h.Word), h.C)
			w.line("\t%s %s", goTitle(h.Word), goScalar[h.Wire])
		}
	}
	w.line(")")
	w.line("")
	w.line("// Results of calls.")
	w.line("const (")
	for _, r := range t.Results {
		w.line("\t%s Result = %d // %s", resultName(r), r.Number, r.Text)
	}
	w.line(")")
	for _, s := range t.Types {
		if s.Struct {
			goStruct(w, s)
		}
	}
	for _, e := range t.Enums {
		w.line("")
		w.line("// C has %s in front of these.", e.Prefix)
		w.line("const (")
		for i := range e.Names {
			w.line("\t%s%s = %d", goTitle(e.Word), goConstant(e.Names[i]), e.Values[i])
		}
		w.line(")")
	}
	return w.goSource()
}

// goConstant is the Go name of a C constant, in capitals or not.
func goConstant(name string) string {
	if strings.ToUpper(name) == name {
		name = strings.ToLower(name)
	}
	return goTitle(name)
}

func resultName(r api.Result) string {
	name := r.Name
	switch r.Lib {
	case api.Driver:
		name = strings.TrimPrefix(strings.TrimPrefix(name, "CUDA_"), "ERROR_")
	case api.NVML:
		name = "Nvml_" + strings.TrimPrefix(strings.TrimPrefix(name, "NVML_"), "ERROR_")
	case api.NCCL:
		return "Result" + goTitle(name)
	}
	parts := strings.Split(strings.ToLower(name), "_")
	return "Result" + goTitle(strings.Join(parts, "_"))
}

func goStruct(w *text, s *api.Type) {
	name := goType(s)
	w.line("")
	w.line("// %s is %s.", name, s.C)
	w.line("type %s struct {", name)
	for _, f := range s.Fields {
		array := ""
		if f.N > 0 {
			array = fmt.Sprintf("[%d]", f.N)
		}
		w.line("\t%s %s%s", goTitle(f.Name), array, goType(f.Type))
	}
	w.line("}")
	w.line("")
	w.line("func get%s(b []byte) (s %s) {", name, name)
	w.line("\t_ = b[%d]", s.Size-1)
	for _, f := range s.Fields {
		if f.N > 0 {
			w.line("\tfor i := range s.%s {", goTitle(f.Name))
			w.line("\t\ts.%s[i] = %s", goTitle(f.Name), fromBytes(f.Type, fmt.Sprintf("b[%d+%d*i:]", f.Offset, f.Type.Size)))
			w.line("\t}")
			continue
		}
		w.line("\ts.%s = %s", goTitle(f.Name), fromBytes(f.Type, fmt.Sprintf("b[%d:]", f.Offset)))
	}
	w.line("\treturn s")
	w.line("}")
	w.line("")
	w.line("func (e *encoder) put%s(s %s) {", name, name)
	at := 0
	for _, f := range s.Fields {
		writePadding(w, f.Offset-at)
		n := max(f.N, 1)
		at = f.Offset + n*f.Type.Size
		if f.N > 0 {
			w.line("\tfor _, v := range s.%s {", goTitle(f.Name))
			w.line("\t\t%s", toBytes(f.Type, "v"))
			w.line("\t}")
			continue
		}
		w.line("\t%s", toBytes(f.Type, "s."+goTitle(f.Name)))
	}
	writePadding(w, s.Size-at)
	w.line("}")
}

func writePadding(w *text, n int) {
	if n > 0 {
		w.line("\te.out = append(e.out, make([]byte, %d)...)", n)
	}
}

// getterOf is the function that reads an element from bytes.
func getterOf(t *api.Type) string {
	switch {
	case t.Struct:
		return "get" + goType(t)
	case t.Handle:
		return fmt.Sprintf("func(b []byte) %s { return %s(get%s(b)) }", goType(t), goType(t), goTitle(t.Wire))
	}
	return "get" + goTitle(t.Wire)
}

func fromBytes(t *api.Type, b string) string {
	if t.Handle {
		return fmt.Sprintf("%s(get%s(%s))", goType(t), goTitle(t.Wire), b)
	}
	return fmt.Sprintf("%s(%s)", getterOf(t), b)
}

func toBytes(t *api.Type, v string) string {
	switch {
	case t.Struct:
		return fmt.Sprintf("e.put%s(%s)", goType(t), v)
	case t.Handle:
		return fmt.Sprintf("e.write%s(%s(%s))", goTitle(t.Wire), goScalar[t.Wire], v)
	}
	return fmt.Sprintf("e.write%s(%s)", goTitle(t.Wire), v)
}
