// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// result is C's name of the results of a library.
var result = map[api.Lib]string{api.Driver: "CUresult", api.NCCL: "ncclResult_t", api.NVML: "nvmlReturn_t"}

// failures are a library's results for calls that are not supported, for arguments that cannot be, without memory, and
// when the device server is gone or answers nonsense.
type failures struct{ unsupported, invalid, memory, gone int }

var failing = map[api.Lib]failures{
	api.Driver: {801, 1, 2, 999},
	api.NCCL:   {5, 4, 2, 6},
	api.NVML:   {3, 2, 20, 15},
}

// successCondition is the condition under which a call has succeeded, in C and in Go. NCCL may be in progress.
func successCondition(c *api.Call, r string) string {
	if c.Area.Lib == api.NCCL {
		return fmt.Sprintf("%s == 0 || %s == 7", r, r)
	}
	return r + " == 0"
}

// cABI is gen_abi.h: types, structs, results and prototypes.
func cABI(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("/* The types and constants that a program shares with the libraries in whose place the shim is. */")
	w.line("#ifndef SING_DEVICE_GEN_ABI_H")
	w.line("#define SING_DEVICE_GEN_ABI_H")
	w.line("")
	w.line("#include <stddef.h>")
	w.line("#include <stdint.h>")
	w.line("")
	for _, lib := range []api.Lib{api.Driver, api.NCCL, api.NVML} {
		w.line("typedef int %s;", result[lib])
	}
	w.line("typedef int CUdevice;")
	cHandles(w, t)
	for _, s := range t.Types {
		if s.Struct {
			cStruct(w, s)
		}
	}
	w.line("")
	w.line("enum {")
	for _, r := range t.Results {
		w.line("\t%s = %d,", r.Name, r.Number)
	}
	w.line("};")
	for _, e := range t.Enums {
		w.line("")
		w.line("enum {")
		for i := range e.Names {
			w.line("\t%s%s = %d,", e.Prefix, e.Names[i], e.Values[i])
		}
		w.line("};")
	}
	w.line("")
	w.line("/* By the shim's own name, hidden, and by the public one. Those that are written by hand are among them. */")
	w.line("#define SING_PUBLIC(name) extern __typeof__(sing_##name) name __attribute__((alias(\"sing_\" #name), visibility(\"default\")))")
	w.line("")
	for _, e := range t.Symbols() {
		if !isMissed(t, e.Call) {
			w.line("%s;", cPrototype(e.Call, "sing_"+e.Symbol))
			w.line("extern __typeof__(sing_%s) %s __attribute__((visibility(\"default\")));", e.Symbol, e.Symbol)
		}
	}
	w.line("")
	w.line("/* The numbers of messages. */")
	w.line("enum {")
	for _, c := range messagesOf(t) {
		w.line("\tSING_OP_%s = %#x,", c.Symbol, c.Op())
	}
	w.line("};")
	w.line("")
	w.line("/* Messages, for functions that are written by hand. per_thread is 0 or SING_PER_THREAD. */")
	for c := range t.Calls {
		if c.Shipped() {
			w.line("%s;", messagePrototype(c))
		}
	}
	w.line("")
	w.line("#endif")
	return w.Bytes()
}

func cHandles(w *text, t *api.Table) {
	seen := map[string]bool{"CUdevice": true}
	for _, h := range t.Types {
		if seen[h.C] || !h.Handle || strings.HasSuffix(h.C, "*") {
			continue
		}
		seen[h.C] = true
		switch {
		case h.C == "CUdeviceptr" || h.C == "CUmemGenericAllocationHandle":
			w.line("typedef unsigned long long %s;", h.C)
		case h.Wire == "i32":
			w.line("typedef int %s;", h.C)
		default:
			w.line("typedef struct %s_s *%s;", h.C, h.C)
		}
	}
	w.line("")
	w.line("/* Classes whose handles the shim makes up. */")
	w.line("enum sing_class {")
	for _, h := range t.Types {
		if h.Handle && h.Maker == api.ByClient {
			w.line("\t%s,", classOf(h))
		}
	}
	w.line("};")
}

func classOf(h *api.Type) string { return "SING_CLASS_" + strings.ToUpper(h.Word) }

func cStruct(w *text, s *api.Type) {
	w.line("")
	w.line("typedef struct {")
	for _, f := range s.Fields {
		array := ""
		if f.N > 0 {
			array = fmt.Sprintf("[%d]", f.N)
		}
		w.line("\t%s%s%s;", spacedType(f.Type.C), f.Name, array)
	}
	w.line("} %s;", s.C)
	w.line("_Static_assert(sizeof(%s) == %d, \"%s\");", s.C, s.Size, s.C)
	for _, f := range s.Fields {
		w.line("_Static_assert(offsetof(%s, %s) == %d, \"%s.%s\");", s.C, f.Name, f.Offset, s.C, f.Name)
	}
}

// spacedType is a type in front of a name.
func spacedType(c string) string {
	if strings.HasSuffix(c, "*") {
		return c
	}
	return c + " "
}

// cParameter is an argument in the form of C.
func cParameter(a api.Arg) string {
	c := a.Type.C
	pointer := a.Dir == api.Out || a.Dir == api.InOut || a.Count.IsArray() || a.Type.Struct && a.Dir == api.In
	if !pointer {
		return spacedType(c) + a.Name
	}
	if a.Dir == api.In {
		// A pointer that is const belongs behind the type: its elements are.
		if strings.HasSuffix(c, "*") {
			return c + "const *" + a.Name
		}
		return "const " + c + " *" + a.Name
	}
	return spacedType(c) + "*" + a.Name
}

func cParameters(c *api.Call) []string {
	var all []string
	for _, a := range c.Args {
		all = append(all, cParameter(a))
	}
	return all
}

func cPrototype(c *api.Call, name string) string {
	all := cParameters(c)
	if len(all) == 0 {
		all = []string{"void"}
	}
	return fmt.Sprintf("%s%s(%s)", spacedType(cResult(c)), name, strings.Join(all, ", "))
}

func cResult(c *api.Call) string {
	switch c.Returns {
	case "":
		return result[c.Area.Lib]
	case "string":
		return "const char *"
	}
	return c.Returns
}

// messagePrototype is the prototype of the function that sends a message.
func messagePrototype(c *api.Call) string {
	return fmt.Sprintf("%s sing_send_%s(%s)", result[c.Area.Lib], c.Symbol,
		strings.Join(append([]string{"uint32_t per_thread"}, cParameters(c)...), ", "))
}

// isMissed tells whether the exported function only reports that the call is not covered.
func isMissed(t *api.Table, c *api.Call) bool {
	if c.Kind == api.Same {
		return isMissed(t, t.Call(c.Via[0]))
	}
	return c.Kind == api.Planned || c.Kind == api.Refused || c.Unwritten
}
