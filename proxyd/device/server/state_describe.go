// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/graphs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/modules"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// stateVersion is the version of the types below. stateName is the file of the description.
const (
	stateVersion = 2 // 1 has no queued work
	workless     = 1
	stateName    = "state.json"
)

// BlocksPrefix begins the names of the files of a save that consist of blocks, of BlockLength bytes each.
const (
	BlocksPrefix = "blocks-"
	BlockLength  = backend.Granule
)

// serverState is the content of state.json.
type serverState struct {
	Version   int                `json:"version"`
	ID        string             `json:"id"`
	Saves     uint64             `json:"saves"`
	Key       []byte             `json:"key"` // the key of the hashes
	Clock     time.Duration      `json:"clock"`
	Last      uint64             `json:"last"` // process
	Devices   []deviceInfo       `json:"devices"`
	Sharing   driver.RandomID    `json:"sharing,omitzero"` // the name that is in handles of shared memory and events
	Network   *nccl.NetworkState `json:"network,omitempty"`
	Left      []cut.Place        `json:"left,omitempty"` // members that were given up
	Blocks    []blockState       `json:"blocks"`
	Processes []processState     `json:"processes"`
	Missed    []string           `json:"missed,omitempty"` // features that programs have missed, as in Status
	Faults    []string           `json:"faults,omitempty"`
}

// deviceInfo is a device as programs know it, the same wherever they come to.
type deviceInfo struct {
	Base backend.Addr `json:"base"`
	Size uint64       `json:"size,omitempty"` // of its addresses; 0: backend.SpaceSize
	backend.Info
}

// describeDevice returns the saved description of a device.
func describeDevice(d *driver.Device) deviceInfo {
	i := deviceInfo{Base: d.Base, Info: *d.Info()}
	if d.Size != backend.SpaceSize(i.Memory) {
		i.Size = d.Size
	}
	return i
}

// processState is a process: its state that replay does not bring back, and the facts by which the replayed state is
// checked.
type processState struct {
	SavedProcess
	Pipe       int                       `json:"pipe"` // the descriptor of its end of the pipe, -1 if closed
	View       []int                     `json:"view"` // the devices that the process sees, by ordinal
	Counts     map[uint64]uint64         `json:"counts,omitempty"`
	Lasts      uint64                    `json:"lasts"`
	Late       int32                     `json:"late,omitempty"`
	Devices    []spaceState              `json:"devices"`
	Contexts   []driver.ContextState     `json:"contexts"`
	Streams    []driver.StreamState      `json:"streams,omitempty"`
	Events     []driver.EventState       `json:"events,omitempty"`
	Shared     []driver.SharedEventState `json:"shared,omitempty"`
	Imports    []memory.ImportState      `json:"imports,omitempty"`
	Pools      []memory.PoolState        `json:"pools,omitempty"`
	Memories   []memory.AllocationState  `json:"memories,omitempty"`
	Pinned     []memory.PinnedState      `json:"pinned,omitempty"`
	Modules    []modules.ModuleState     `json:"modules,omitempty"`
	Graphs     []graphs.MemoryOfNode     `json:"graphs,omitempty"`
	Footprints []graphs.Footprint        `json:"footprints,omitempty"`
	Members    []nccl.MemberState        `json:"members,omitempty"` // of communicators
	Buffers    []memory.BufferState      `json:"buffers,omitempty"`
	Buffer     uint64                    `json:"buffer,omitempty"` // the last number of an allocation
	Last       map[string]uint64         `json:"last,omitempty"`   // handles made, by class
	Handles    map[string][]uint64       `json:"handles"`          // alive, by class
	File       string                    `json:"file"`             // has the bytes of the calls
	Calls      []callState               `json:"calls"`
	Work       []workState               `json:"work,omitempty"`
}

type spaceState struct {
	Ordinal  int32            `json:"ordinal"`
	Retained int              `json:"retained,omitempty"`
	Default  dispatch.Mempool `json:"default,omitempty"`
	Pool     dispatch.Mempool `json:"pool,omitempty"`
	Flags    uint32           `json:"flags,omitempty"`
	Reaches  []int32          `json:"reaches,omitempty"` // kernels may always follow pointers into these devices' memory
	Owner    uint64           `json:"owner,omitempty"`   // see driver.OwnerNumbers; missing in saves of older releases
	State    *backend.State   `json:"state"`
	Memory   []placedBlock    `json:"memory"`
}

// callState is a call of replay. Its bytes follow the bytes of the call before in the process's file.
type callState struct {
	Op      uint32 `json:"op"`
	Symbol  string `json:"symbol"` // for people
	Context uint64 `json:"context,omitempty"`
	In      int    `json:"in"`
	Out     int    `json:"out"`
}

// describeProcess writes a process down, but for its memory and the bytes of its calls. The process is stopped.
func (p *process) describeProcess() (*processState, []replay.Call, error) {
	counts, err := p.Ring.Counts()
	if err != nil {
		return nil, nil, err
	}
	st := &processState{SavedProcess: p.savedProcess(), Pipe: -1, View: p.View, Counts: counts, Last: map[string]uint64{}, Handles: map[string][]uint64{}}
	if st.HostMappings, err = p.listHostMappings(); err != nil {
		return nil, nil, err
	}
	if w, ok := p.Peer.(*watchedProcess); ok {
		st.Pipe = w.pipeDescriptor()
	}
	st.Lasts, st.Late = p.Counters()
	for i := range p.View {
		if d := p.describeDevice(int32(i)); d != nil {
			d.Default, d.Pool = p.PoolsOf(int32(i))
			st.Devices = append(st.Devices, *d)
		}
	}
	st.Contexts, st.Streams, st.Events = p.DescribeContexts(), p.DescribeStreams(), p.DescribeEvents(p.server.state.shift)
	st.Shared, st.Imports = p.DescribeSharedEvents(), p.DescribeImports()
	st.Pools, st.Memories, st.Pinned = p.DescribeMemory()
	st.Modules = p.SavedModules()
	st.Graphs, st.Footprints = p.graphs.SavedMemory(), p.graphs.SavedFootprints()
	st.Members = p.DescribeMembers()
	st.Buffers, st.Buffer = p.Buffers.Describe()
	for name, t := range p.handleTables() {
		if n := t.Counter(); n != 0 {
			st.Last[string(name)] = n
		}
		if l := t.List(); len(l) > 0 {
			st.Handles[string(name)] = l
		}
	}
	calls := p.history.callsToReplay()
	for _, c := range calls {
		rule, _ := replay.Look(c.Op)
		st.Calls = append(st.Calls, callState{c.Op, rule.Symbol, c.Context, len(c.In), len(c.Out)})
	}
	return st, calls, nil
}

// describeDevice writes down the state of the process on a device; nil if the process has not used the device.
func (p *process) describeDevice(ordinal int32) *spaceState {
	sp, retained, flags := p.DeviceUse(ordinal)
	if sp == nil && flags == 0 {
		return nil
	}
	st := &spaceState{Ordinal: ordinal, Retained: retained, Flags: flags}
	if sp != nil {
		st.State, st.Reaches, st.Owner = sp.State(), sp.ReachedDevices(), sp.Owner
	}
	return st
}

// savedProcess names the process.
func (p *process) savedProcess() SavedProcess {
	pid := int(p.Peer.Memory())
	return SavedProcess{ID: p.ID, PID: pid, Capsule: innermostPID(pid)}
}

// innermostPID is a process's PID in its own namespace, or in ours if its own cannot be read.
func innermostPID(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return pid
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if n, err := strconv.Atoi(f[len(f)-1]); err == nil {
					return n
				}
			}
		}
	}
	return pid
}
