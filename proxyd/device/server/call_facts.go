// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"

// callFacts are the facts of an operation by which its messages are handled.
type callFacts struct {
	dispatch.Info
	mayWait bool
	work    workKind
}

// factsOfCalls has the facts of all operations, so that a message costs a single look-up.
var factsOfCalls = func() map[uint32]*callFacts {
	all := map[uint32]*callFacts{}
	for _, op := range dispatch.Ops() {
		info, _ := dispatch.Look(op)
		all[op] = &callFacts{info, mayWait[info.Symbol], workOf(op)}
	}
	return all
}()

// findFacts returns the facts of a message's operation; nil if no call has this number.
func findFacts(op uint32) *callFacts { return factsOfCalls[op&^dispatch.PerThread] }
