// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/printf"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
)

// Hooks are the services of a kernel's launcher. Without a hook its call has no effect: printf discards the text and
// malloc returns 0. Hooks of a launch are never called concurrently.
type Hooks struct {
	// Printf gets each call of vprintf, thread by thread.
	Printf func(p Printf)
	// Malloc returns the address of n bytes that Malloc has mapped into the launch's memory, or 0. Free unmaps memory
	// that Malloc returned.
	Malloc func(n uint64) uint64
	Free   func(addr uint64)
	// SetCondition sets the condition of a graph.
	SetCondition func(handle uint64, value uint32)
	// LaunchKernel takes a launch by a thread, and returns what the thread is told.
	// Without the hook the launch is refused.
	LaunchKernel func(c Child) LaunchCode
}

// Printf is a thread's call of printf.
type Printf struct {
	printf.Call
	Block, Thread Dim3
}

// builtins are the functions that PTX texts call without defining them.
var builtins = map[string]builtin{
	"vprintf":      callPrintf,
	"__assertfail": callAssert,
	"malloc":       callMalloc,
	"free":         callFree,

	"cudaGraphSetConditional": callSetConditional,
}

// findBuiltin returns the package's own form of a function that no text defines, or nil.
func findBuiltin(f *syntax.Function) builtin {
	if !f.Declared {
		return nil
	}
	if call, ok := strings.CutPrefix(f.Name, driverCall); ok {
		return driverCalls[call]
	}
	return builtins[f.Name]
}

// refusedFunctions are the functions that only the device's own runtime could define.
var refusedFunctions = func() map[string]string {
	m := map[string]string{"cudaGraphLaunch": "threads launch no graphs"}
	for _, f := range []string{"cudaCGGetIntrinsicHandle", "cudaCGSynchronize", "cudaCGSynchronizeGrid", "cudaCGGetSize", "cudaCGGetRank"} {
		m[f] = "the old cooperative groups runtime is not supported"
	}
	return m
}()

// whyRefused says why a function is refused that PTX texts call without defining it, or "".
func whyRefused(name string) string {
	switch {
	case refusedFunctions[name] != "":
		return refusedFunctions[name]
	case strings.HasPrefix(name, driverCall):
		return "dynamic parallelism without this call of the device runtime"
	case strings.HasPrefix(name, "__cuda_syscall_CGS"):
		return refusedFunctions["cudaCGSynchronize"]
	case strings.HasPrefix(name, "cnp"), strings.HasPrefix(name, "__cuda_syscall_cnp"):
		return "the first form of dynamic parallelism, which devices from compute capability 9.0 on do not have"
	case strings.HasPrefix(name, "cuda"), strings.HasPrefix(name, "__cudaCDP"):
		return "the text is not linked with CUDA's device runtime"
	}
	return ""
}

const maxString = 1 << 16 // bytes of a format or of an argument

// readText reads a string at a generic address.
func (w *warp) readText(addr uint64, lane int) string {
	var out []byte
	for len(out) < maxString {
		chunk := uint64(64)
		b := w.genericBytes(addr, chunk, lane)
		for b == nil && chunk > 1 {
			chunk /= 2
			b = w.genericBytes(addr, chunk, lane)
		}
		if b == nil {
			break
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(out, b[:end]...))
		}
		out = append(out, b...)
		addr += chunk
	}
	return string(out)
}

func callPrintf(w *warp, in *inst, m uint32) {
	hook := w.block.run.cfg.Hooks.Printf
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		format := w.readText(w.readArg(in, 0, i), i)
		arguments, conversions := w.readPrintf(w.readArg(in, 1, i), format, i)
		w.setRet(in, i, uint64(uint32(conversions)))
		if hook != nil {
			thread := w.block.run.cfg.Block.positionAt(uint64(w.id*warpSize + i))
			hook(Printf{Call: printf.Call{Format: format, Arguments: arguments}, Block: w.block.pos, Thread: thread})
		}
	}
}

// readPrintf reads the arguments of a call of printf from the buffer at addr, and counts the conversions of its format.
// Arguments of 32 bits are at multiples of 4, other arguments at multiples of 8.
func (w *warp) readPrintf(addr uint64, format string, lane int) (arguments []printf.Argument, conversions int) {
	at := uint64(0)
	for _, conversion := range printf.ParseFormat(format) {
		operands := conversion.Operands()
		if operands != nil {
			conversions++
		}
		for _, o := range operands {
			at = (at + o.Size - 1) &^ (o.Size - 1)
			a := printf.Argument{Bits: readBytes(w.genericBytes(addr+at, o.Size, lane))}
			at += o.Size
			if o.IsText {
				a.Text = w.readText(a.Bits, lane)
			}
			arguments = append(arguments, a)
		}
	}
	return arguments, conversions
}

func callAssert(w *warp, in *inst, m uint32) {
	var failed []FailedAssertion
	for l := m; l != 0; l &= l - 1 {
		i := lowestLane(l)
		message, file, line, function := w.readText(w.readArg(in, 0, i), i), w.readText(w.readArg(in, 1, i), i), uint32(w.readArg(in, 2, i)), w.readText(w.readArg(in, 3, i), i)
		failed = append(failed, FailedAssertion{
			Thread: w.block.run.cfg.Block.positionAt(uint64(w.id*warpSize + i)),
			Text:   fmt.Sprintf("%s:%d: %s: Assertion `%s` failed.", file, line, function, message),
		})
	}
	f := describeFault(w, AssertFailed, in, lowestLane(m), 0, failed[0].Text)
	f.Assertions = failed
	panic(f)
}

func callMalloc(w *warp, in *inst, m uint32) {
	hook := w.block.run.cfg.Hooks.Malloc
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		addr := uint64(0)
		if hook != nil {
			addr = hook(w.readArg(in, 0, i))
		}
		w.setRet(in, i, addr)
	}
}

func callSetConditional(w *warp, in *inst, m uint32) {
	hook := w.block.run.cfg.Hooks.SetCondition
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		if hook != nil {
			hook(w.readArg(in, 0, i), uint32(w.readArg(in, 1, i)))
		}
	}
}

func callFree(w *warp, in *inst, m uint32) {
	hook := w.block.run.cfg.Hooks.Free
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		if addr := w.readArg(in, 0, i); hook != nil && addr != 0 {
			hook(addr)
		}
	}
	w.block.forgetRanges()
}
