// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// CountDevices returns the number of devices of each capsule of a new job, which the capsule keeps for life. all has the
// GPUs that Slurm has given to the job, by node. A job that may grow to most GPUs has that many devices from the
// beginning: its program sees them all, and they share the GPUs that the job has at the time.
func CountDevices(all [][]int, most int) []int {
	counts := make([]int, len(all))
	for i, gpus := range all {
		counts[i] = len(gpus)
	}
	return growCounts(counts, most)
}

// mostDevices is how many devices growCounts and SpareDevices give a program; preemptd/cluster counts by the same number.
const mostDevices = 16

// growCounts divides most devices evenly over capsules that have fewer GPUs, up to the number of devices that a
// program can have.
func growCounts(counts []int, most int) []int {
	n := len(counts)
	for i, has := range counts {
		counts[i] = max(has, min(most*(i+1)/n-most*i/n, mostDevices))
	}
	return counts
}

// Grant lists the GPUs of a capsule in this run.
type Grant struct {
	SlurmNumbers []int // as Slurm numbers them
	Order        []int // for each GPU of the first run, its index among these

	MachineNumbers []int // SlurmNumbers, counted on the machine
	Sharing        []int // capsules of the job that share the capsule's only GPU, itself among them, in order; nil: it has its GPUs for itself
}

// DeviceNames returns for each device of the capsule Slurm's number of the GPU that stands for the device. Devices that
// share a GPU have the same name: a task to which Slurm gives that GPU sees all of them.
func (g *Grant) DeviceNames() []string {
	names := make([]string, len(g.Order))
	for i, at := range g.Order {
		names[i] = strconv.Itoa(g.SlurmNumbers[at])
	}
	return names
}

// SpareDevices returns how many additional GPUs the capsules of a device server can use, if other jobs lend them: the
// capsule, or all that share its GPU. began has the GPUs of each capsule's first run.
func (g *Grant) SpareDevices(began []int) int {
	devices := len(g.Order)
	if g.Sharing != nil {
		devices = 0
		for _, index := range g.Sharing {
			devices += began[index]
		}
	}
	return min(max(devices-len(g.SlurmNumbers), 0), mostDevices)
}

// grantGPUs distributes a node's GPUs over its n capsules, and returns the share of capsule
// place, which had began GPUs in the first run. Capsules share a GPU only if there are more
// capsules than GPUs. If a capsule has fewer GPUs than in the first run, several of its first
// run's GPUs map to the same GPU.
func grantGPUs(gpus []int, place, n, began int) Grant {
	first, end := place*len(gpus)/n, (place+1)*len(gpus)/n
	names := gpus[first:max(end, first+1)]
	return Grant{SlurmNumbers: names, Order: server.Spread(began, min(began, len(names)))}
}

// FindGrant returns the GPUs of a capsule on a node that has devices. all has the GPUs that Slurm has given to the run, by
// node. relative: Slurm numbers the GPUs of each job from 0.
func FindGrant(rec *records.Record, where records.Placement, node string, index int, all [][]int, relative bool) (*Grant, error) {
	here, err := where.CapsulesOn(node)
	if err != nil {
		return nil, err
	}
	at := slices.Index(where.ThisRun, node)
	if at >= len(all) || len(all[at]) == 0 {
		return nil, fmt.Errorf("the job has no GPUs on %s now, and began with %d", node, rec.GPUs[index])
	}
	place, gpus := slices.Index(here, index), all[at]
	machine := grantGPUs(gpus, place, len(here), rec.GPUs[index]).SlurmNumbers
	if relative {
		gpus = make([]int, len(gpus))
		for i := range gpus {
			gpus[i] = i
		}
	}
	g := grantGPUs(gpus, place, len(here), rec.GPUs[index])
	g.MachineNumbers = machine
	g.Sharing = capsulesSharing(here, place, len(gpus))
	return &g, nil
}

// capsulesSharing returns the capsules that grantGPUs puts on the same GPU as capsule place of the capsules here; nil if
// that capsule does not share its GPU.
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

// CheckSharedMemory refuses capsules with memory that does not fit on the GPU that they share, where each has a device
// server of its own: these do not swap for each other. memory is the GPU's; 0: as much as the smallest GPU of the capsules
// had, for a capsule is not restored on a smaller GPU.
func (g *Grant) CheckSharedMemory(capsules []records.CapsuleMeta, memory uint64) error {
	held, smallest := uint64(0), uint64(0)
	for _, m := range capsules {
		if m.Devices != nil && slices.Contains(g.Sharing, m.Index) {
			held += m.Devices.Bytes
			if smallest == 0 || m.Devices.Memory < smallest {
				smallest = m.Devices.Memory
			}
		}
	}
	memory = cmp.Or(memory, smallest)
	if held <= memory || memory == 0 {
		return nil
	}
	return fmt.Errorf("capsules %s would share GPU %d, which has %d MiB, and hold %d MiB on theirs: give the job more GPUs or nodes",
		strings.Trim(fmt.Sprint(g.Sharing), "[]"), g.SlurmNumbers[0], memory>>20, (held+1<<20-1)>>20)
}

// HasFewer tells whether a node of this run has fewer GPUs than its capsules had in the first
// run. all has the GPUs that Slurm has given to the run, by node.
func HasFewer(rec *records.Record, where records.Placement, all [][]int) (bool, error) {
	for i, node := range where.ThisRun {
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

// FindUUIDs returns the UUIDs of a node's GPUs with these numbers. all are the UUIDs of its GPUs, as its driver knows them.
func FindUUIDs(node string, all []string, numbers []int) ([]string, error) {
	var out []string
	for _, n := range numbers {
		if n >= len(all) {
			return nil, fmt.Errorf("node %s: Slurm gives it GPU %d, and the driver knows %d", node, n, len(all))
		}
		if all[n] == "" { // the driver would not show the GPUs after this one
			return nil, fmt.Errorf("node %s: GPU %d does not answer", node, n)
		}
		out = append(out, all[n])
	}
	return out, nil
}
