// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// The collector's decisions. They are correct if the collector keeps to this order, which
// the test of this file walks through with every interleaving of writers, readers, other
// collectors and deaths:
//
//	to take chunks out of sight   1 make a sweep folder   2 read all manifests
//	                              3 move unused chunks into the folder
//	                              4 read the current generation, g
//	                              5 move from there into trash/g-…   6 begin g+1
//	to take over from the dead    1 make a sweep folder   2 move all from theirs into ours
//	                              3 remove theirs: from now on their moves fail
//	to judge trash/g-…            1 list trash/g-…   2 list the claims   3 read all manifests
//	                              4 carry out the decision about the listed objects
//
// The generation is read after the moves: so a claim of a later generation was made when the chunk
// was out of sight. The claims are listed after the trash: so a claim that is not listed was made
// later still, or has ended, and then its manifest is read.

// isSettled tells whether every process that may have seen the objects now in trash/g-…, and did not commit before the
// claims were listed, has ended.
func isSettled(g generationNumber, live []generationNumber) bool {
	for _, l := range live {
		if l <= g {
			return false
		}
	}
	return true
}

// trashDecision is the decision about an object in the trash.
type trashDecision int

const (
	wait trashDecision = iota
	purge
	restore
)

// chunkFate decides about a chunk; used means that a manifest needs it.
func chunkFate(used, settled bool) trashDecision {
	switch {
	case used:
		return restore
	case settled:
		return purge
	default:
		return wait
	}
}

// manifestFate decides about a deleted manifest: readers may have opened it before it was deleted.
func manifestFate(settled bool) trashDecision {
	if settled {
		return purge
	}
	return wait
}

// isSweepable tells whether a chunk is taken out of sight. The grace is not needed for correctness, but it prevents
// that new chunks of dumps in progress are moved away and back.
func isSweepable(used bool, age, grace time.Duration) bool { return !used && age >= grace }
