// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// SharingStatus counts the work of a device of the machine since the server began, and the price of sharing the device
// between processes or devices of the job's. See docs/splicing.md.
type SharingStatus struct {
	Devices      int           `json:"devices"`                // of the job's, that this device carries
	Spaces       int           `json:"spaces"`                 // that take turns now: a process has a space for each of its devices
	Instructions uint64        `json:"instructions,omitempty"` // that warps have issued; 0 where the device does not count
	Switches     uint64        `json:"switches"`               // between spaces
	Interrupted  uint64        `json:"interrupted"`            // switches away from a space that had more work to do
	SwitchTime   time.Duration `json:"switch_time"`            // in all, with the time for the bytes that were moved
	SwappedOut   uint64        `json:"swapped_out"`            // bytes, to the host's memory
	SwappedIn    uint64        `json:"swapped_in"`
	SwapTime     time.Duration `json:"swap_time"`
	SwapSpared   uint64        `json:"swap_spared"` // bytes that had to leave or to come, and were not moved, because equal bytes were there
	Alike        uint64        `json:"alike"`       // bytes of a device of the job's that another device of the job's on this device has too, at the last save
	Peak         uint64        `json:"peak"`        // bytes of spaces that were in the device's memory at once
	// Of the memory of all spaces, which may be more than the device's.
	Common   uint64 `json:"common"`   // bytes that are there once and belong to several spaces
	Saved    uint64 `json:"saved"`    // bytes that would be there beside these if each space had its own
	Private  uint64 `json:"private"`  // bytes that spaces have for themselves
	Unshared uint64 `json:"unshared"` // bytes that were common until a space wrote there, in all
	Rung     string `json:"rung"`     // how spaces share the device, or have when there were several last: one of the Rung constants; "" where they never did
	// Of kernels that were launched while several spaces were on the device, if spaces may take each other's results.
	Once     uint64 `json:"once,omitempty"`     // launches that took the result of another space's launch
	Own      uint64 `json:"own,omitempty"`      // launches that ran for their space
	Spared   uint64 `json:"spared,omitempty"`   // instructions that were not executed, because results were taken
	Compared uint64 `json:"compared,omitempty"` // bytes that were read to find blocks, and what kernels read, that are alike
	Taken    uint64 `json:"taken,omitempty"`    // bytes of results that were copied
	Kept     uint64 `json:"kept,omitempty"`     // bytes of results that are kept now, beside the spaces' memory
	Why      string `json:"why,omitempty"`      // why most of the last of Own ran for their space, in words
}

// Of SharingStatus.Rung, from the dearest to the cheapest.
const (
	RungSwap     = "swap"     // memory that does not fit is moved to the host's memory and back
	RungResident = "resident" // the memory of all spaces is there, a copy for each
	RungAlias    = "alias"    // memory with the same bytes is there once, or does not move while spaces take turns there
	RungSplice   = "splice"   // and kernels that spaces launch alike run for one of them
)

// describeRung tells how a device is shared: of what happened lately, by what costs the most. swapped: bytes were moved
// lately; spliced: results of kernels were taken lately; alike: bytes were spared a move lately.
func (s *SharingStatus) describeRung(swapped, spliced, alike bool) string {
	switch {
	case s.Spaces < 2:
		return ""
	case swapped:
		return RungSwap
	case spliced:
		return RungSplice
	case s.Saved > 0, alike:
		return RungAlias
	}
	return RungResident
}

// describeSharing returns the counts of each device of the machine that need no server's. Of a device with several spaces,
// describeSharing keeps the rung for when there are none.
func (m *Machine) describeSharing() []SharingStatus {
	m.rungsMu.Lock()
	defer m.rungsMu.Unlock()
	out := make([]SharingStatus, len(m.timeSlices))
	for i, d := range m.backend.Devices() {
		turns, spaces := m.timeSlices[i].Counts()
		of := SharingStatus{Spaces: spaces, Switches: turns.Switches, Interrupted: turns.Interrupted, SwitchTime: turns.Took}
		if c, is := d.(backend.InstructionCounter); is {
			of.Instructions = c.Instructions()
		}
		swapped, spliced, alike := false, false, false
		if w, is := d.(backend.Swapper); is {
			n := w.Swapped()
			swapped, alike = n.Now, n.Alike
			of.SwappedOut, of.SwappedIn, of.SwapTime, of.SwapSpared, of.Peak = n.Out, n.In, n.Took, n.Spared, n.Most
		}
		if m, is := d.(backend.BlockSharer); is {
			n := m.Common()
			of.Common, of.Saved, of.Private, of.Unshared, of.Compared = n.Shared, n.Saved, n.Private, n.Unshared, n.Compared
		}
		if x, is := d.(backend.Splicer); is {
			n := x.Spliced()
			of.Once, of.Own, of.Spared, of.Taken, of.Kept, of.Why = n.Once, n.Own, n.Saved, n.Taken, n.Kept, n.Why
			of.Compared += n.Compared
			spliced = n.Now
		}
		if rung := of.describeRung(swapped, spliced, alike); rung != "" {
			m.rungs[i] = rung
		}
		of.Rung = m.rungs[i]
		out[i] = of
	}
	return out
}

// describeSharing returns the counts of each device of the machine, with those of the server's own. The caller holds state.mu.
func (s *Server) describeSharing() []SharingStatus {
	var out []SharingStatus
	for i, of := range s.machine.describeSharing() {
		for _, on := range s.devices {
			if on.Place().TimeSlices == s.machine.timeSlices[i] {
				of.Devices++
			}
		}
		if i < len(s.state.alike) {
			of.Alike = s.state.alike[i]
		}
		out = append(out, of)
	}
	for len(out) > s.deviceCount() && out[len(out)-1] == (SharingStatus{}) {
		out = out[:len(out)-1] // a spare device that was never used
	}
	return out
}
