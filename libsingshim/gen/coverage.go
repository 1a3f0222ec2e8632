// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// coverageOf says in words for readers whether a call is covered.
func coverageOf(c *api.Call) string {
	switch {
	case c.Kind == api.Refused:
		return "refused"
	case c.Kind == api.Planned:
		return "not yet"
	case c.Unwritten:
		return "by hand, not yet"
	case c.Kind == api.Local || c.Kind == api.Aware:
		return "by hand"
	}
	return "yes"
}

var states = []string{"yes", "by hand", "by hand, not yet", "not yet", "refused"}

// stateOf is the call's coverage; for an older version of another call, that of the other call.
func stateOf(t *api.Table, c *api.Call) string {
	if c.Kind == api.Same {
		return coverageOf(t.Call(c.Via[0]))
	}
	return coverageOf(c)
}

func coveragePage(t *api.Table) []byte {
	w := &text{}
	w.line("<!-- %s -->", made)
	w.line("# Which calls the shim knows")
	w.line("")
	w.line("Every public call of CUDA's driver up to 13.2, of NCCL up to 2.30, the common ones of NVML, and what is intercepted of")
	w.line("the C library, from the table in `libsingshim/api`, one row per symbol. They are in `libsingshim-device.so`, which")
	w.line("`proxyd run` and jobs with device servers have. A process without a device server has no devices. All of these symbols")
	w.line("exist and are found by `dlsym` and `cuGetProcAddress`. One that is not covered returns `CUDA_ERROR_NOT_SUPPORTED`")
	w.line("(`ncclInvalidUsage`, `NVML_ERROR_NOT_SUPPORTED`) and says so once, by its name: none passes us by in silence.")
	w.line("")
	w.line("* **yes**: the function is made from the row, and the device server understands what it sends.")
	w.line("* **by hand**: the shim must know what the call means; **by hand, not yet**: its arguments and messages are settled and")
	w.line("  the function is still to be written. Until then it is refused by name.")
	w.line("* **not yet**, **refused**: as it says, with the reason.")
	w.line("")
	w.line("*from* is the version from which `cuGetProcAddress` finds the function; with a cross under *thread* there is a second")
	w.line("function for callers whose default stream is per thread. *kind* is how the call travels: async is posted and fails late,")
	w.line("counted is async and seen by the barrier, sync is a round trip, stateful one whose effect a restore brings back, cached")
	w.line("one whose answer is kept, local and aware are by hand. NCCL's functions have their second names (`pncclAllReduce`) too.")
	w.line("")
	w.line("Arrays, texture objects and surface objects are for software GPUs; on real ones they are refused by name. An array is")
	w.line("memory of the device, and an object is the address of a descriptor there: both are captured and restored as memory is.")
	w.line("They have one, two or three dimensions, or layers of one or two, and one, two or four channels of 8, 16 or 32 bits. How")
	w.line("texels are filtered is in `proxyd/softgpu/ptx/texture`: weights have 8 bits behind the point, as the vendor documents.")
	w.line("")
	w.line("Managed memory is for software GPUs, too: pinned memory that the program and all its devices have mapped, so that each")
	w.line("sees what the other writes, at once. Variables that are declared managed lie in such memory from the load of their code")
	w.line("until that is unloaded. On real GPUs, a program gets the address of such a variable, which the host cannot use.")
	w.line("")
	w.line("Pinned memory that is allocated is mapped by the device server, too, and kernels follow its addresses. Memory that is")
	w.line("registered is read and written by the server when a copy is carried out; kernels do not reach it, which")
	w.line("`cuMemHostGetDevicePointer` says. Where the server may not look into the process (another user,")
	w.line("`kernel.yama.ptrace_scope` above 1), copies go through the ring in pieces, and images of more than 512 KiB fail.")
	w.line("")
	writeSummary(w, t)
	for _, a := range t.Areas {
		writeArea(w, t, a)
	}
	return w.Bytes()
}

func writeSummary(w *text, t *api.Table) {
	w.line("| | %s | symbols |", strings.Join(states, " | "))
	w.line("| --- |%s --: |", strings.Repeat(" --: |", len(states)))
	total := make([]int, len(states)+1)
	row := func(title string, n []int) {
		cells := make([]string, len(n))
		for i := range n {
			cells[i] = fmt.Sprint(n[i])
		}
		w.line("| %s | %s |", title, strings.Join(cells, " | "))
	}
	for _, a := range t.Areas {
		n := make([]int, len(states)+1)
		for _, c := range a.Calls {
			if c.Message {
				continue
			}
			for i, s := range states {
				if stateOf(t, c) == s {
					n[i]++
				}
			}
			n[len(states)]++
		}
		for i := range n {
			total[i] += n[i]
		}
		row(a.Title, n)
	}
	row("**all**", total)
	w.line("")
}

func writeArea(w *text, t *api.Table, a *api.Area) {
	w.line("## %s", a.Title)
	w.line("")
	w.line("| call | from | thread | kind | | |")
	w.line("| --- | --: | :-: | --- | --- | --- |")
	for _, c := range a.Calls {
		if c.Message {
			continue
		}
		thread, from := "", ""
		if c.PerThread != "" {
			thread = "×"
		}
		if a.Lib == api.Driver {
			from = fmt.Sprint(c.Version)
		}
		kind := string(c.Kind)
		if c.Kind == api.Refused || c.Kind == api.Planned {
			kind = ""
		}
		w.line("| %s | %s | %s | %s | %s | %s |", c.Symbol, from, thread, kind, stateOf(t, c), remarkOf(c))
	}
	w.line("")
}

func remarkOf(c *api.Call) string {
	var all []string
	if c.Reason != "" {
		all = append(all, c.Reason)
	}
	if c.Kind == api.Same {
		all = append(all, "is "+c.Via[0])
	}
	if c.Name == c.Symbol && strings.Contains(c.Symbol, "_v") {
		all = append(all, "cuGetProcAddress finds it by this name")
	}
	if c.Gone != 0 {
		all = append(all, fmt.Sprintf("gone from the header in %d", c.Gone))
	}
	if c.Unsure != "" {
		all = append(all, "unsure: "+c.Unsure)
	}
	return strings.Join(all, "; ")
}
