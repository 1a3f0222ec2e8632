// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

var libraries = map[api.Lib]string{api.Driver: "SING_DRIVER", api.NCCL: "SING_NCCL", api.NVML: "SING_NVML"}

// cOps is gen_ops.c: the table behind ops.h, sorted by number.
func cOps(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("#include \"ops.h\"")
	w.line("")
	calls := messagesOf(t)
	slices.SortFunc(calls, func(a, b *api.Call) int { return cmp.Compare(a.Op(), b.Op()) })
	w.line("const unsigned sing_op_count = %d;", len(calls))
	w.line("const struct sing_op sing_ops[] = {")
	for _, c := range calls {
		free := 0
		if c.Free {
			free = 1
		}
		w.line("\t{ %#x, %s, %d }, /* %s */", c.Op(), libraries[c.Area.Lib], free, c.Symbol)
	}
	w.line("};")
	return w.Bytes()
}

func messagesOf(t *api.Table) []*api.Call {
	var all []*api.Call
	for c := range t.Calls {
		if c.Shipped() {
			all = append(all, c)
		}
	}
	return all
}
