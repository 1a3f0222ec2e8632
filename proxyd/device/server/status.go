// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// Status is the contents of a server, and the events that it has seen.
type Status struct {
	Version   string          `json:"version"`
	Stopped   bool            `json:"stopped,omitempty"` // by Save or Restore, until Resume
	Failed    string          `json:"failed,omitempty"`  // why Restore has failed
	Devices   []DeviceStatus  `json:"devices"`
	Sharing   []SharingStatus `json:"sharing,omitempty"` // of each device of the machine
	Processes []ProcessStatus `json:"processes"`
	// Reductions is how sums of numbers that are rounded were made: ReducedExactly or ReducedByNCCL.
	Reductions string `json:"reductions,omitempty"`
	// Kernels is how software GPUs execute kernels: compiled, or interpreted with the reason.
	Kernels string `json:"kernels,omitempty"`
	// Products is ProductsNative if software GPUs compute matrix products in the place of cuBLAS.
	Products string   `json:"products,omitempty"`
	Missed   []string `json:"missed,omitempty"` // uncovered features that programs wanted, each once, in order
	Faults   []string `json:"faults,omitempty"` // the first faults that have ended a process's use of devices
}

// Of Status.Reductions.
const (
	ReducedExactly = "exact" // along a fixed tree over rank numbers: the same bits, wherever the ranks are
	ReducedByNCCL  = "nccl"  // some at least, in an order of its own: they agree to rounding
)

// describeReductions tells how sums were made.
func describeReductions(c *nccl.Collectives) string {
	if c.Rounded.Load() {
		return ReducedByNCCL
	}
	return ReducedExactly
}

// describeKernels tells how a backend executes kernels, if it says so.
func describeKernels(b backend.Backend) string {
	if k, ok := b.(interface{ Kernels() string }); ok {
		return k.Kernels()
	}
	return ""
}

// ProductsNative is for Status.Products.
const ProductsNative = "native"

// describeProducts tells whether a backend was given its own matrix products to compute.
func describeProducts(b backend.Backend) string {
	if p, ok := b.(interface{ Products() bool }); ok && p.Products() {
		return ProductsNative
	}
	return ""
}

// DeviceStatus is a device of the job's.
type DeviceStatus struct {
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes
	Used   uint64 `json:"used"`   // by all processes together: may be more than there is
	On     int    `json:"on"`     // the device of the machine, as in Sharing
}

// ProcessStatus is a process of the job's that uses devices.
type ProcessStatus struct {
	SavedProcess
	Used   uint64 `json:"used"`             // bytes of all devices
	Fault  uint32 `json:"fault,omitempty"`  // the number of the fault that has ended its use of devices
	Absent bool   `json:"absent,omitempty"` // the process was restored and has not come back yet
}

// Limits of the lists in a Status, and of their entries.
const (
	maxMissed = 256
	maxFaults = 64
	maxSeen   = 1024 // bytes of one entry
)

// reportedFaults are the missed features and faults of a server's processes, also of processes that are gone.
type reportedFaults struct {
	mu     sync.Mutex
	missed []string
	faults []string
	failed string
}

func (s *reportedFaults) noteMissed(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.missed) < maxMissed && !slices.Contains(s.missed, what) {
		s.missed = append(s.missed, what)
	}
}

func (s *reportedFaults) noteFault(process uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, plainText(fmt.Sprintf("process %d: %v", process, err)))
	}
}

func (s *reportedFaults) noteFailure(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = plainText(err.Error())
}

// allSeen returns the missed features and the faults of programs.
func (s *reportedFaults) allSeen() (missed, faults []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.missed), slices.Clone(s.faults)
}

// recallSeen takes over the features and faults that an earlier server has seen.
func (s *reportedFaults) recallSeen(missed, faults []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed, s.faults = boundTexts(missed, maxMissed), boundTexts(faults, maxFaults)
}

// boundTexts are the first texts of a list, fit to be shown.
func boundTexts(list []string, most int) []string {
	out := make([]string, min(len(list), most))
	for i := range out {
		out[i] = plainText(list[i])
	}
	return out
}

// plainText is text that can be shown, and is not long.
func plainText(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxSeen)], "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// Status may be asked at any time. During Save and Restore, Status waits.
func (s *Server) Status() *Status {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	st := &Status{Version: s.cfg.Version, Stopped: s.state.stopped, Reductions: describeReductions(s.collectives), Kernels: describeKernels(s.machine.backend), Products: describeProducts(s.machine.backend), Devices: []DeviceStatus{}, Processes: []ProcessStatus{}}
	on := placesOf(s)
	for i, d := range s.devices {
		st.Devices = append(st.Devices, DeviceStatus{Name: d.Info().Name, Memory: d.Info().Memory, On: on[i]})
	}
	all := s.allProcesses()
	slices.SortFunc(all, func(a, b *process) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range all {
		ps := ProcessStatus{SavedProcess: SavedProcess{ID: p.ID}, Fault: p.Fault.Load(), Absent: true}
		if p.Ring != nil {
			ps.SavedProcess, ps.Absent = p.savedProcess(), false
		}
		for i := range st.Devices {
			used := p.UsedBytes(int32(i))
			st.Devices[i].Used += used
			ps.Used += used
		}
		st.Processes = append(st.Processes, ps)
	}
	st.Sharing = s.describeSharing()
	st.Missed, st.Faults = s.seen.allSeen()
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	st.Failed = s.seen.failed
	return st
}

// boundTexts makes the texts from a server fit to be shown.
func (st *Status) boundTexts() {
	st.Version, st.Failed = plainText(st.Version), plainText(st.Failed)
	if st.Reductions != ReducedByNCCL {
		st.Reductions = ReducedExactly
	}
	if st.Products != ProductsNative {
		st.Products = ""
	}
	st.Missed, st.Faults = boundTexts(st.Missed, maxMissed), boundTexts(st.Faults, maxFaults)
	st.Devices = st.Devices[:min(len(st.Devices), maxDevices)]
	st.Sharing = st.Sharing[:min(len(st.Sharing), maxDevices)]
	for i := range st.Devices {
		st.Devices[i].Name = plainText(st.Devices[i].Name)
	}
	for i := range st.Sharing {
		s := &st.Sharing[i]
		if s.Rung != RungSplice && s.Rung != RungAlias && s.Rung != RungResident && s.Rung != RungSwap {
			s.Rung = ""
		}
		s.Why = plainText(s.Why)
	}
}

// maxDevices is how many devices a server is believed to have.
const maxDevices = 64
