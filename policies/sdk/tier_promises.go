// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"math"
	"strconv"
)

// RoomPrefix begins the names of the reservations by which preemptd keeps nodes for a job that waits. The job's number
// follows.
const RoomPrefix = "preemptd:room:"

// TierPromises are the GPUs that jobs are promised, beside the GPUs that are there for these jobs.
type TierPromises struct {
	Tier     Tier
	Own      float64 // GPUs that the waiting and running jobs of the tier are promised: promised fraction times requested GPUs
	Promised float64 // Own, and the same of all higher tiers
	// Usable are the usable GPUs of all nodes, and GPUs of draining nodes on which jobs of the tier or a higher tier that
	// are promised something still run.
	Usable int
}

// PromisesByTier adds up the promises to jobs, by tier.
func (s *Snapshot) PromisesByTier() [Tiers]TierPromises {
	var all [Tiers]TierPromises
	there := make([]GPUSet, len(s.Nodes))
	for i := range s.Nodes {
		there[i] = s.Nodes[i].Usable()
	}
	promised := 0.0
	for tier := Tier(Tiers); tier > 0; {
		tier--
		p := &all[tier]
		p.Tier = tier
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if j.Tier != tier || j.Promised <= 0 || j.State != Waiting && j.State != Running {
				continue
			}
			p.Own += j.Promised * float64(j.Request)
			for _, share := range j.Shares {
				if j.State == Running && s.Nodes[share.Node].State != NodeDown {
					there[share.Node] |= share.GPUs
				}
			}
		}
		promised += p.Own
		p.Promised = promised
		for _, gpus := range there {
			p.Usable += gpus.Count()
		}
	}
	return all
}

// rounding is larger than the rounding errors of sums of fractions, and smaller than any promise.
const rounding = 1e-6

// Unkept says, in words, that not all of these promises can be kept at a time; empty: they can, or the tier's jobs
// have no promise.
func (p TierPromises) Unkept() string {
	if p.Own <= 0 || p.Promised <= float64(p.Usable)+rounding {
		return ""
	}
	tiers := p.Tier.String()
	if p.Promised > p.Own {
		tiers += " and higher"
	}
	// Rounded up: of 64 GPUs, 64.01 that are promised are more.
	gpus, there := strconv.FormatFloat(math.Ceil(10*p.Promised-rounding)/10, 'f', -1, 64)+" GPUs are", "are"
	if gpus == "1 GPUs are" {
		gpus = "1 GPU is"
	}
	if p.Usable == 1 {
		there = "is"
	}
	return fmt.Sprintf("%s: %s promised, %d %s there", tiers, gpus, p.Usable, there)
}

// UnkeptPromises says for each tier, the highest first, that the promises to its jobs and those of higher tiers cannot
// all be kept at a time. There is no line for a tier whose promises can.
func (s *Snapshot) UnkeptPromises() []string {
	var lines []string
	all := s.PromisesByTier()
	for i := range all {
		if line := all[len(all)-1-i].Unkept(); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
