// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// publicVersion is the release of CUDA that our header is like: a name means the newest function under that
// name in the release.
const publicVersion = 12000

// header is the name of a library's public header, and the prefixes of its types and enumerations.
type header struct {
	lib    api.Lib
	name   string
	prefix []string
}

// headers are the public headers. The last one has the types without another header's prefix.
var headers = []header{
	{api.NCCL, "nccl", []string{"nccl"}},
	{api.NVML, "nvml", []string{"nvml", "NVML"}},
	{api.Driver, "cuda", []string{""}},
}

// headerOf names the header that has a type. Types that begin with sing are for the shim and the server alone.
func headerOf(c string) string {
	if strings.HasPrefix(c, "sing") {
		return ""
	}
	for _, h := range headers {
		for _, p := range h.prefix {
			if strings.HasPrefix(c, p) {
				return h.name
			}
		}
	}
	return ""
}

// byHand are structs with unions that a program needs to know, and the table does not have: they are written by hand.
var byHand = []string{"CUlaunchAttributeValue", "CUlaunchAttribute", "CUstreamBatchMemOpParams"}

// cPublic is a header that programs of ours are compiled with: types, numbers and prototypes of a library under their
// public names. Pointers are void where the table does not give the type behind them.
func cPublic(t *api.Table, h header) []byte {
	w := newFile()
	guard := "GEN_" + strings.ToUpper(h.name) + "_H"
	w.line("")
	w.line("#ifndef %s", guard)
	w.line("#define %s", guard)
	w.line("")
	w.line("#include <stddef.h>")
	w.line("")
	if h.lib == api.NCCL {
		w.line("#include \"cuda.h\"")
		w.line("")
	}
	w.line("typedef int %s;", result[h.lib])
	writePublicTypes(w, t, h)
	writeEnums(w, t, h)
	if h.lib == api.Driver {
		w.line("")
		w.line("#include \"cuda_structs.h\"")
	}
	w.line("")
	for c := range t.Calls {
		if c.Message || c.Area.Lib != h.lib {
			continue
		}
		w.line("%s;", publicPrototype(c, c.Symbol))
		if c.PerThread != "" {
			w.line("%s;", publicPrototype(c, c.PerThreadSymbol()))
		}
	}
	if h.lib == api.Driver {
		writeRenames(w, t)
	}
	w.line("")
	w.line("#endif")
	return w.Bytes()
}

// writePublicTypes writes the handles and structs of a header.
func writePublicTypes(w *text, t *api.Table, h header) {
	if h.lib == api.Driver {
		w.line("typedef int CUdevice;")
	}
	for _, x := range t.Types {
		if x.Handle && headerOf(x.C) == h.name {
			cHandle(w, x)
		}
	}
	public := publicTypes(t)
	for _, x := range t.Types {
		if x.Struct && public[x] && headerOf(x.C) == h.name && !slices.Contains(byHand, x.C) {
			cStruct(w, x)
		}
	}
}

// writeEnums writes the numbers of a header: its library's results, and enums.
func writeEnums(w *text, t *api.Table, h header) {
	w.line("")
	w.line("enum {")
	for _, r := range t.Results {
		if r.Lib == h.lib {
			w.line("\t%s = %d,", r.Name, r.Number)
		}
	}
	w.line("};")
	for _, e := range t.Enums {
		if headerOf(e.Prefix) != h.name {
			continue
		}
		w.line("")
		w.line("enum {")
		for i := range e.Names {
			w.line("\t%s%s = %d,", e.Prefix, e.Names[i], e.Values[i])
		}
		w.line("};")
	}
}

// publicTypes are the types of arguments of public calls, and the types of their members.
func publicTypes(t *api.Table) map[*api.Type]bool {
	all := map[*api.Type]bool{}
	var add func(x *api.Type)
	add = func(x *api.Type) {
		all[x] = true
		for _, f := range x.Fields {
			add(f.Type)
		}
	}
	for c := range t.Calls {
		for _, a := range c.Args {
			if !c.Message {
				add(a.Type)
			}
		}
	}
	// The types of members of structs that are written by hand.
	add(t.Type("poolprops"))
	return all
}

// writeRenames lets names mean their newest function, as the driver's own header does.
func writeRenames(w *text, t *api.Table) {
	newest := map[string]api.Entry{}
	var names []string
	for _, e := range t.Entries() {
		if e.PerThread || e.Version > publicVersion {
			continue
		}
		// The function with a list of affinities has a name of its own in every header.
		if e.Symbol == "cuCtxCreate_v3" {
			continue
		}
		if newest[e.Name].Call == nil {
			names = append(names, e.Name)
		}
		newest[e.Name] = e // they come in the order of versions
	}
	w.line("")
	w.line("/* Who wants each version under its own name defines this. */")
	w.line("#ifndef GEN_CUDA_NO_RENAMES")
	w.line("#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM")
	for _, n := range names {
		if c := newest[n].Call; c.PerThread != "" {
			w.line("#define %s %s", n, c.PerThreadSymbol())
		}
	}
	w.line("#else")
	for _, n := range names {
		if c := newest[n].Call; c.PerThread != "" && c.Symbol != n {
			w.line("#define %s %s", n, c.Symbol)
		}
	}
	w.line("#endif")
	for _, n := range names {
		if c := newest[n].Call; c.PerThread == "" && c.Symbol != n {
			w.line("#define %s %s", n, c.Symbol)
		}
	}
	w.line("#endif")
}

func cHandle(w *text, x *api.Type) {
	switch {
	case x.C == "CUdeviceptr" && x.Word != "devptr", strings.HasSuffix(x.C, "*"):
	case x.C == "CUdeviceptr" || x.C == "CUmemGenericAllocationHandle":
		w.line("typedef unsigned long long %s;", x.C)
	case x.Wire == "i32":
		w.line("typedef int %s;", x.C)
	default:
		w.line("typedef struct %s_s *%s;", x.C, x.C)
	}
}

// publicParameter is an argument as a program hands it over. An argument that may point to anything takes a
// pointer to anything, const too: the table does not say which arguments are const.
func publicParameter(a api.Arg, lib api.Lib) string {
	c := cParameter(a)
	pointer := strings.TrimSuffix(c, a.Name)
	readOnly := "const "
	if a.Name == "dst" || a.Name == "buffer" {
		readOnly = ""
	}
	switch {
	case lib == api.NCCL && a.Type.C == "CUdeviceptr":
		if a.Verb == api.Make || a.Dir == api.Out {
			return "void **" + a.Name
		}
		return readOnly + "void *" + a.Name
	case pointer == "void *":
		if a.Dir == api.Out || a.Dir == api.InOut {
			return c
		}
		return readOnly + "void *" + a.Name
	case pointer == "void **" && !a.Type.Handle:
		return "void *" + a.Name
	case pointer == "void *const *":
		return "const void *" + a.Name
	}
	return c
}

func publicPrototype(c *api.Call, name string) string {
	var all []string
	for _, a := range c.Args {
		all = append(all, publicParameter(a, c.Area.Lib))
	}
	if len(all) == 0 {
		all = []string{"void"}
	}
	return fmt.Sprintf("%s%s(%s)", spacedType(cResult(c)), name, strings.Join(all, ", "))
}

// cStub is a library to link programs against: it has every symbol, as a function that returns an error.
func cStub(t *api.Table, h header) []byte {
	w := newFile()
	w.line("")
	w.line("/* The library that a program is linked with; at run time the dynamic linker finds the real library, or the shim. */")
	w.line("#define STUB(name) int name(void); int name(void) { return %d; }", map[api.Lib]int{api.Driver: 34, api.NCCL: 3, api.NVML: 999}[h.lib])
	w.line("")
	for _, e := range t.Symbols() {
		if e.Call.Area.Lib == h.lib {
			w.line("STUB(%s)", e.Symbol)
		}
	}
	return w.Bytes()
}
