// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// Lease is a job that lends GPUs to the capsules of a device server, as the note of the first of them has it.
type Lease struct {
	Job  uint32 `json:"job"`
	GPUs []int  `json:"gpus"`           // as Slurm numbers them
	At   []int  `json:"at"`             // the devices of the device server that stand for them
	Over bool   `json:"over,omitempty"` // the lease has ended, and its GPUs must be left
}

// Devices are the devices of a capsule, or of all capsules that share a device server.
type Devices struct {
	Total int // devices that the programs see
	Own   int // devices that stand for the capsules' own GPUs; 0: the device server has no spare devices
}

// Divide says how many of a job's GPUs each of a node's device servers gets: each GPU goes to the server with the most
// devices for a GPU. leases has those of each server.
func Divide(lent int, all []Devices, leases [][]Lease) ([]int, error) {
	counts, has, free, total, spare := make([]int, len(all)), make([]int, len(all)), make([]int, len(all)), 0, 0
	for i, d := range all {
		has[i], free[i] = d.Own+CountLent(leases[i]), len(d.freeDevices(leases[i]))
		total, spare = total+d.Total, spare+free[i]
	}
	if lent > spare {
		return nil, fmt.Errorf("it can use %d GPUs (--singularity-gpus), and %d more would be %d too many", total, lent, lent-spare)
	}
	for range lent {
		to := -1
		for i, d := range all {
			if free[i] > 0 && (to < 0 || d.Total*has[to] > all[to].Total*has[i]) {
				to = i
			}
		}
		counts[to], has[to], free[to] = counts[to]+1, has[to]+1, free[to]-1
	}
	return counts, nil
}

// Add returns the leases together with a new lease, which gets free devices. If the lease is in the list already, Add
// returns the list unchanged.
func (d Devices) Add(leases []Lease, lease Lease) ([]Lease, error) {
	if Index(leases, lease.Job) >= 0 {
		return leases, nil
	}
	free := d.freeDevices(leases)
	if len(lease.GPUs) > len(free) {
		return nil, fmt.Errorf("it can use %d GPUs (--singularity-gpus), and %d more would be %d too many",
			d.Total, len(lease.GPUs), len(lease.GPUs)-len(free))
	}
	lease.At = free[:len(lease.GPUs)]
	return append(slices.Clone(leases), lease), nil
}

// freeDevices are the devices of the server that stand for no GPU.
func (d Devices) freeDevices(leases []Lease) []int {
	used := map[int]bool{}
	for _, o := range leases {
		for _, at := range o.At {
			used[at] = true
		}
	}
	var free []int
	for at := d.Own; at < d.Total && d.Own > 0; at++ {
		if !used[at] {
			free = append(free, at)
		}
	}
	return free
}

// Places returns, for each device, the GPU on which the device is to be: a GPU of the capsule's own, or of a lease that is
// not over.
func (d Devices) Places(leases []Lease) (places []int, gpus int) {
	var on []int
	for at := range d.Own {
		on = append(on, at)
	}
	for _, o := range leases {
		if !o.Over {
			on = append(on, o.At...)
		}
	}
	slices.Sort(on)
	places = server.Spread(d.Total, min(d.Total, len(on)))
	for i, at := range places {
		places[i] = on[at]
	}
	return places, len(on)
}

// Index returns the index of a job's lease; -1 if there is none.
func Index(leases []Lease, job uint32) int {
	return slices.IndexFunc(leases, func(o Lease) bool { return o.Job == job })
}

// End returns the leases, with the lease of a job marked as over.
func End(leases []Lease, job uint32) []Lease {
	leases = slices.Clone(leases)
	for i := range leases {
		leases[i].Over = leases[i].Over || leases[i].Job == job
	}
	return leases
}

// Without returns the leases without the lease of a job.
func Without(leases []Lease, job uint32) []Lease {
	return slices.DeleteFunc(slices.Clone(leases), func(o Lease) bool { return o.Job == job })
}

// CountLent returns how many GPUs leases lend.
func CountLent(leases []Lease) int {
	n := 0
	for _, o := range leases {
		n += len(o.GPUs)
	}
	return n
}
