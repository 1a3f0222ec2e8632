// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// spared are calls that may rightly wait for ever, end the test or write files.
var spared = []string{
	"cuGraphDebugDotPrint", "cuStreamBatchMemOp", "cuStreamBatchMemOp_v2", "cuStreamWaitValue32", "cuStreamWaitValue32_v2",
	"cuStreamWaitValue64", "cuStreamWaitValue64_v2", "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel",
}

// cJunk is a function that calls any of the driver's functions with arguments that make no sense, but point to memory
// where C wants a pointer: mistakes of a program that must not harm the server.
func cJunk(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("/* junk.c says what junk_… are. */")
	w.line("static CUresult junk_call(struct junk *j, unsigned which)")
	w.line("{")
	w.line("\tswitch (which) {")
	n := 0
	for c := range t.Calls {
		if c.Message || c.Area.Lib != api.Driver || c.Returns != "" || refusedOrPlanned(t, c) || slices.Contains(spared, c.Symbol) || copiesHost(c) {
			continue
		}
		var all []string
		for _, a := range c.Args {
			all = append(all, junkArgument(c, a))
		}
		w.line("\tcase %d:", n)
		w.line("\t\tj->name = \"%s\";", c.Symbol)
		w.line("\t\treturn (%s(%s));", c.Symbol, strings.Join(all, ", "))
		n++
	}
	w.line("\t}")
	w.line("\treturn (CUDA_SUCCESS);")
	w.line("}")
	w.line("")
	w.line("enum { JUNK_CALLS = %d };", n)
	return w.Bytes()
}

func refusedOrPlanned(t *api.Table, c *api.Call) bool {
	if c.Kind == api.Same {
		return refusedOrPlanned(t, t.Call(c.Via[0]))
	}
	return c.Kind == api.Refused || c.Kind == api.Planned
}

// copiesHost tells whether there are addresses of the program within a struct: the shim may follow them.
func copiesHost(c *api.Call) bool {
	return slices.ContainsFunc(c.Args, func(a api.Arg) bool { return strings.HasPrefix(a.Type.Word, "memcpy") })
}

// junkArgument is an expression for an argument.
func junkArgument(c *api.Call, a api.Arg) string {
	of := strings.TrimSpace(strings.TrimSuffix(publicParameter(a, c.Area.Lib), a.Name))
	counts := slices.ContainsFunc(c.Args, func(b api.Arg) bool { return b.Count.Arg == a.Name })
	near := slices.ContainsFunc(c.Args, func(b api.Arg) bool {
		return b.Type.Word == "hostptr" || b.Type.Word == "ptr" || b.Type.Word == "bytes" || b.Type.Word == "text" || b.Type.Word == "hostmem"
	})
	switch {
	case a.Type.Word == "string":
		return "\"add\""
	case a.Type.Word == "func":
		return "junk_function"
	case a.Type.Word == "ptr":
		return "junk_zeros(j)"
	case a.Verb == api.Make && !a.Count.IsArray() && a.Type.Word != "hostmem":
		return fmt.Sprintf("(%s)junk_made(j)", of)
	case counts && strings.HasSuffix(of, "*"):
		return fmt.Sprintf("(%s)junk_count(j)", of)
	case strings.HasSuffix(of, "*") && (a.Type.Word != "hostmem" || a.Dir != ""):
		return fmt.Sprintf("(%s)junk_memory(j)", of)
	case a.Dir == api.Val:
		return fmt.Sprintf("*(%s *)junk_memory(j)", of)
	case counts, near && !a.Type.Handle, a.Type.Word == "device":
		return fmt.Sprintf("(%s)junk_small(j)", of)
	case a.Type.Handle:
		return fmt.Sprintf("(%s)junk_handle(j)", of)
	}
	return fmt.Sprintf("(%s)junk_number(j)", of)
}
