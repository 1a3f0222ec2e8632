// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// gpuCounts returns the number of devices of each capsule of a new job, which the capsule keeps for life; nil if the
// job has no GPUs. A job that may grow to most GPUs has that many devices from the beginning: its program sees them
// all, and they share the GPUs that the job has at the time.
func (c *Conductor) gpuCounts(ctx context.Context, s *slurm.Job, most int) ([]int, error) {
	if c.Devices.Kind == kindNone {
		return nil, nil
	}
	all, err := c.jobGPUs(ctx, s.String())
	if err != nil || all == nil {
		return nil, err
	}
	if len(all) != len(s.Nodes) {
		return nil, fmt.Errorf("the job has %d nodes, and Slurm shows GPUs of %d", len(s.Nodes), len(all))
	}
	counts := make([]int, len(all))
	for i, gpus := range all {
		counts[i] = len(gpus)
	}
	return growCounts(counts, most), nil
}

// growCounts divides most devices evenly over capsules that have fewer GPUs, up to the number of devices that a
// program can have.
func growCounts(counts []int, most int) []int {
	n := len(counts)
	for i, has := range counts {
		counts[i] = max(has, min(most*(i+1)/n-most*i/n, wire.Leases))
	}
	return counts
}

// jobGPUs returns the GPUs of a job on each of its nodes. It waits for a slurmctld that is starting
// again.
func (c *Conductor) jobGPUs(ctx context.Context, job string) (all [][]int, err error) {
	silent := func(err error) bool { return errors.Is(err, slurm.ErrSilent) }
	err = retryWhile(ctx, restoreCallTimeout, silent, func() (err error) {
		all, err = c.Slurm.GPUs(ctx, job)
		return err
	})
	return all, err
}

// gpuGrant lists the GPUs of a capsule in this run.
type gpuGrant struct {
	slurmNumbers []int // as Slurm numbers them
	order        []int // for each GPU of the first run, its index among these

	machineNumbers []int // slurmNumbers, counted on the machine
	sharing        []int // capsules of the job that share the capsule's only GPU, itself among them; nil: it has its GPUs for itself
}

// deviceNames returns for each device of the capsule Slurm's number of the GPU that stands for the device. Devices that
// share a GPU have the same name: a task to which Slurm gives that GPU sees all of them.
func (g *gpuGrant) deviceNames() []string {
	names := make([]string, len(g.order))
	for i, at := range g.order {
		names[i] = strconv.Itoa(g.slurmNumbers[at])
	}
	return names
}

// spareDevices is how many GPUs more than it has a capsule can use, if another job lends them.
func (g *gpuGrant) spareDevices() int { return max(len(g.order)-len(g.slurmNumbers), 0) }

// grantGPUs distributes a node's GPUs over its n capsules, and returns the share of capsule
// place, which had began GPUs in the first run. Capsules share a GPU only if there are more
// capsules than GPUs. If a capsule has fewer GPUs than in the first run, several of its first
// run's GPUs map to one.
func grantGPUs(gpus []int, place, n, began int) gpuGrant {
	first, end := place*len(gpus)/n, (place+1)*len(gpus)/n
	names := gpus[first:max(end, first+1)]
	return gpuGrant{slurmNumbers: names, order: server.Spread(began, min(began, len(names)))}
}

// findGrant returns the GPUs of a capsule on this node; nil if the capsule had none in the first
// run.
func (j *job) findGrant(ctx context.Context, rec *records.Record, where records.Placement, index int) (*gpuGrant, error) {
	if index >= len(rec.GPUs) || rec.GPUs[index] == 0 {
		return nil, nil
	}
	c := j.c
	if c.Devices.Kind == kindNone {
		return nil, fmt.Errorf("node %s has no devices for jobs (devices.kind in its proxyd.yaml), and the job has %d GPUs", c.Node, rec.GPUs[index])
	}
	all, err := c.jobGPUs(ctx, rec.Slurm)
	if err != nil {
		return nil, err
	}
	here, err := where.CapsulesOn(c.Node)
	if err != nil {
		return nil, err
	}
	at := slices.Index(where.Today, c.Node)
	if at >= len(all) || len(all[at]) == 0 {
		return nil, fmt.Errorf("the job has no GPUs on %s now, and began with %d", c.Node, rec.GPUs[index])
	}
	place, gpus := slices.Index(here, index), all[at]
	machine := grantGPUs(gpus, place, len(here), rec.GPUs[index]).slurmNumbers
	if c.Devices.Relative {
		gpus = make([]int, len(gpus))
		for i := range gpus {
			gpus[i] = i
		}
	}
	g := grantGPUs(gpus, place, len(here), rec.GPUs[index])
	g.machineNumbers = machine
	g.sharing = capsulesSharing(here, place, len(gpus))
	return &g, nil
}

// capsulesSharing returns the capsules that grantGPUs puts on the same GPU as capsule place of those that are here; nil if
// there are no others.
func capsulesSharing(here []int, place, gpus int) (sharing []int) {
	if len(here) <= gpus {
		return nil
	}
	for other, index := range here {
		if other*gpus/len(here) == place*gpus/len(here) {
			sharing = append(sharing, index)
		}
	}
	if len(sharing) == 1 {
		return nil
	}
	return sharing
}

// checkSharedMemory refuses capsules whose memory does not fit on the GPU that they share. Each has a device server of its
// own, and these do not swap for each other.
func (g *gpuGrant) checkSharedMemory(capsules []records.CapsuleMeta, memory uint64) error {
	held := uint64(0)
	for _, m := range capsules {
		if m.Devices != nil && slices.Contains(g.sharing, m.Index) {
			held += m.Devices.Bytes
		}
	}
	if held <= memory || memory == 0 {
		return nil
	}
	return fmt.Errorf("capsules %s would share GPU %d, which has %d MiB, and hold %d MiB on theirs: give the job more GPUs or nodes",
		strings.Trim(fmt.Sprint(g.sharing), "[]"), g.slurmNumbers[0], memory>>20, (held+1<<20-1)>>20)
}

// hasFewerGPUs tells whether a node of this run has fewer GPUs than its capsules had in the first
// run.
func (j *job) hasFewerGPUs(ctx context.Context) (bool, error) {
	snap := j.run.Snapshot()
	rec, where := snap.Record, snap.Placement
	if rec.GPUs == nil {
		return false, nil
	}
	all, err := j.c.jobGPUs(ctx, rec.Slurm)
	if err != nil {
		return false, err
	}
	for i, node := range where.Today {
		here, err := where.CapsulesOn(node)
		if err != nil {
			return false, err
		}
		began, has := 0, 0
		for _, k := range here {
			began += rec.GPUs[k]
		}
		if i < len(all) {
			has = len(all[i])
		}
		if has < began {
			return true, nil
		}
	}
	return false, nil
}

// realGPUs returns the UUIDs of the node's GPUs with these numbers.
func (c *Conductor) realGPUs(ctx context.Context, numbers []int) ([]string, error) {
	all, err := c.Devices.GPUs(ctx)
	if err != nil {
		return nil, fmt.Errorf("GPUs of node %s: %w", c.Node, err)
	}
	var out []string
	for _, n := range numbers {
		if n >= len(all) {
			return nil, fmt.Errorf("node %s: Slurm gives it GPU %d, and the driver knows %d", c.Node, n, len(all))
		}
		if all[n] == "" { // the driver would not show the GPUs after this one
			return nil, fmt.Errorf("node %s: GPU %d does not answer", c.Node, n)
		}
		out = append(out, all[n])
	}
	return out, nil
}
