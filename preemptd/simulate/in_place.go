// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/fraction"
)

// A resize in place, by leases: the job keeps its nodes and its own GPUs, and stands still for Config.InPlace.

// canResizeInPlace reports whether leases can give a running job the size and the places of then: on the nodes that the
// job has, with no fewer GPUs than its own, and with more only if these are free now.
func (r *run) canResizeInPlace(j *job, then *sdk.Job) bool {
	if r.config.InPlace <= 0 || then.GPUs < j.own || len(then.Shares) != len(j.shares) {
		return false
	}
	for i, s := range then.Shares {
		has := &j.shares[i]
		if s.Node != has.Node || s.GPUs.Count()-has.GPUs.Count() > r.pool.free[s.Node].Count() {
			return false
		}
	}
	return true
}

// resizeInPlace begins a resize that canResizeInPlace allows. GPUs that the job gives up are free when it ends.
func (r *run) resizeInPlace(j *job, then *sdk.Job) {
	r.endComputing(j)
	r.result.still += r.config.InPlace.Milliseconds() * int64(j.holding)
	r.result.countStop(j, sdk.Resize)
	j.turn++
	j.action, j.acted, j.gpus = sdk.Resize.String(), r.now, then.GPUs
	shares := slices.Clone(j.shares)
	for i := range shares {
		s := &shares[i]
		s.GPUs |= r.pool.allocateGPUs(s.Node, max(0, then.Shares[i].GPUs.Count()-s.GPUs.Count()))
	}
	r.changeShares(j, shares)
	r.recordState(j, fraction.Stopped)
	r.scheduleEvent(r.now+r.config.InPlace.Milliseconds(), resized, j)
}

// endResizeInPlace has a job compute on the GPUs that it keeps.
func (r *run) endResizeInPlace(j *job) {
	shares := slices.Clone(j.shares)
	for i := range shares {
		s := &shares[i]
		keep := s.GPUs.First(j.gpus / len(shares))
		r.pool.releaseShares([]sdk.Share{{Node: s.Node, GPUs: s.GPUs &^ keep}})
		s.GPUs = keep
	}
	r.changeShares(j, shares)
	j.action = ""
	if j.Limit == 0 {
		j.until = r.now + j.plannedTime()
	}
	r.computeFromNow(j)
	r.claims = slices.DeleteFunc(r.claims, r.fillClaim)
}

// changeShares notes what a running job holds from now on.
func (r *run) changeShares(j *job, shares []sdk.Share) {
	was := j.holding
	j.shares, j.holding = shares, gpusIn(shares)
	if j.holding != was {
		r.holdings = append(r.holdings, allocationChange{r.now, j.born, j.holding - was})
	}
}
