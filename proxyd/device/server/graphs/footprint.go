// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"cmp"
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// The attributes of a device's memory for graphs, as the driver numbers them.
const (
	usedCurrent = iota
	usedHigh
	reservedCurrent
	reservedHigh
)

// Footprint is the memory of graphs on a device, in bytes: the memory that launched graphs have allocated and that is
// not freed, and the memory reserved for graphs. Both have a highest value since that was reset.
type Footprint struct {
	Device       int32  `json:"device"`
	UsedHigh     uint64 `json:"used_high"`
	ReservedHigh uint64 `json:"reserved_high"`
}

// currentUse adds up the memory of graphs on a device. The caller holds the lock.
func (p *Graphs) currentUse(dev int32) (used, reserved uint64) {
	for _, m := range p.memory {
		if m.context.Space.Ordinal != dev {
			continue
		}
		size := (m.size + backend.Granule - 1) &^ (backend.Granule - 1)
		reserved += size
		if m.live {
			used += size
		}
	}
	return used, reserved
}

// noteFootprint raises the highest values of a device. The caller holds the lock.
func (p *Graphs) noteFootprint(dev int32) {
	used, reserved := p.currentUse(dev)
	f := p.footprints[dev]
	p.footprints[dev] = Footprint{dev, max(f.UsedHigh, used), max(f.ReservedHigh, reserved)}
}

// GraphMemory is an attribute of a device's memory for graphs.
func (p *Graphs) GraphMemory(dev, attribute int32) uint64 {
	p.lockGraphs()
	defer p.unlockGraphs()
	used, reserved := p.currentUse(dev)
	return [...]uint64{
		usedCurrent: used, usedHigh: p.footprints[dev].UsedHigh, reservedCurrent: reserved, reservedHigh: p.footprints[dev].ReservedHigh,
	}[attribute]
}

// ResetGraphMemory sets a highest value to the present value.
func (p *Graphs) ResetGraphMemory(dev, attribute int32) {
	p.lockGraphs()
	defer p.unlockGraphs()
	f := p.footprints[dev]
	f.Device = dev
	used, reserved := p.currentUse(dev)
	switch attribute {
	case usedHigh:
		f.UsedHigh = used
	case reservedHigh:
		f.ReservedHigh = reserved
	}
	p.footprints[dev] = f
}

// SavedFootprints lists the highest values.
func (p *Graphs) SavedFootprints() []Footprint {
	p.lockGraphs()
	defer p.unlockGraphs()
	return slices.SortedFunc(maps.Values(p.footprints), func(a, b Footprint) int { return cmp.Compare(a.Device, b.Device) })
}

// RestoreFootprints sets the highest values.
func (p *Graphs) RestoreFootprints(all []Footprint) {
	p.lockGraphs()
	defer p.unlockGraphs()
	clear(p.footprints)
	for _, f := range all {
		p.footprints[f.Device] = f
	}
}
