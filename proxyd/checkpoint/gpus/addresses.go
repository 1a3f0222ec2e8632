// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// CheckAddresses returns why the capsules that share a real GPU cannot share a process: a process has each address once. In a
// process of several capsules, variables of modules and pinned memory stay at their addresses all the time. The driver places
// variables by the numbers of spaces (package server/driver), and programs place pinned memory. Other memory of several
// capsules may have the same addresses, for the process maps the memory of a single space at a time.
func (g *Grant) CheckAddresses(capsules []records.CapsuleMeta) error {
	places := map[uint64]int{}
	var pinned []pinnedRange
	for i := range capsules {
		m := &capsules[i]
		if m.Devices == nil || !slices.Contains(g.Sharing, m.Index) {
			continue
		}
		if m.Devices.Owners == nil {
			return fmt.Errorf("capsule %d was saved by an older release, which did not write where variables are", m.Index)
		}
		for _, number := range m.Devices.Owners {
			place := number % server.OwnerPlaces
			if other, taken := places[place]; taken && other != m.Index {
				return fmt.Errorf("variables of capsules %d and %d are at the same addresses", other, m.Index)
			}
			places[place] = m.Index
		}
		for _, p := range m.Devices.Processes {
			for _, h := range p.HostMappings {
				if h.Kind == server.PinnedMemory {
					pinned = append(pinned, pinnedRange{m.Index, h.Address, h.Address + h.Length})
				}
			}
		}
	}
	return checkPinned(pinned)
}

// pinnedRange is pinned memory of a capsule's process.
type pinnedRange struct {
	capsule    int
	begin, end uint64
}

// checkPinned returns an error if pinned memory of two capsules overlaps.
func checkPinned(all []pinnedRange) error {
	slices.SortFunc(all, func(a, b pinnedRange) int { return cmp.Compare(a.begin, b.begin) })
	for i, last := 1, 0; i < len(all); i++ { // last: the range before i that ends last
		if a, b := all[last], all[i]; b.begin < a.end && a.capsule != b.capsule {
			return fmt.Errorf("pinned memory of capsules %d and %d is at the same addresses", a.capsule, b.capsule)
		}
		if all[i].end >= all[last].end {
			last = i
		}
	}
	return nil
}
