// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// stateVersion is of all that follows. stateName is the file that has it.
const (
	stateVersion = 1
	stateName    = "state.json"
)

// BlocksPrefix begins the names of the files of a save that consist of blocks, of BlockLength bytes each.
const (
	BlocksPrefix = "blocks-"
	BlockLength  = backend.Granule
)

// serverState is what state.json holds.
type serverState struct {
	Version   int            `json:"version"`
	ID        string         `json:"id"`
	Saves     uint64         `json:"saves"`
	Key       []byte         `json:"key"` // of the hashes
	Clock     time.Duration  `json:"clock"`
	Last      uint64         `json:"last"` // process
	Devices   []deviceInfo   `json:"devices"`
	Network   *networkState  `json:"network,omitempty"`
	Left      []cut.Place    `json:"left,omitempty"` // members that were given up
	Blocks    []blockState   `json:"blocks"`
	Processes []processState `json:"processes"`
	Missed    []string       `json:"missed,omitempty"` // what programs have met with, as Status has it
	Faults    []string       `json:"faults,omitempty"`
}

// deviceInfo is what programs know of a device; it stays theirs wherever they come to.
type deviceInfo struct {
	Base backend.Addr `json:"base"`
	backend.Info
}

// processState is one process: what replay does not bring back stands here, and by what to check that it has.
type processState struct {
	SavedProcess
	Pipe     int                 `json:"pipe"` // the descriptor of its end of the pipe, -1 if it has closed it
	View     []int               `json:"view"` // the devices that it sees, by ordinal
	Counts   map[uint64]uint64   `json:"counts,omitempty"`
	Lasts    uint64              `json:"lasts"`
	Late     int32               `json:"late,omitempty"`
	Devices  []spaceState        `json:"devices"`
	Contexts []contextState      `json:"contexts"`
	Streams  []streamState       `json:"streams,omitempty"`
	Events   []eventState        `json:"events,omitempty"`
	Pools    []poolState         `json:"pools,omitempty"`
	Memories []memoryState       `json:"memories,omitempty"`
	Pinned   []pinnedState       `json:"pinned,omitempty"`
	Modules  []moduleState       `json:"modules,omitempty"`
	Graphs   []memoryOfNode      `json:"graphs,omitempty"`
	Members  []memberState       `json:"members,omitempty"` // of communicators
	Buffers  []bufferState       `json:"buffers,omitempty"`
	Buffer   uint64              `json:"buffer,omitempty"` // the last name
	Last     map[string]uint64   `json:"last,omitempty"`   // handles made, by class
	Handles  map[string][]uint64 `json:"handles"`          // alive, by class
	File     string              `json:"file"`             // has the bytes of the calls
	Calls    []callState         `json:"calls"`
}

type spaceState struct {
	Ordinal  int32            `json:"ordinal"`
	Retained int              `json:"retained,omitempty"`
	Default  dispatch.Mempool `json:"default,omitempty"`
	Pool     dispatch.Mempool `json:"pool,omitempty"`
	Flags    uint32           `json:"flags,omitempty"`
	Reaches  []int32          `json:"reaches,omitempty"` // whose memory kernels may follow pointers into, for good
	State    *backend.State   `json:"state"`
	Memory   []placed         `json:"memory"`
}

type contextState struct {
	Handle  dispatch.Context  `json:"handle"`
	Backend backend.ContextID `json:"backend"`
	ID      uint64            `json:"id"`
	Legacy  streamState       `json:"legacy"`
	Late    int32             `json:"late,omitempty"`
	Threads []threadState     `json:"threads,omitempty"`
}

type threadState struct {
	Thread uint32 `json:"thread"`
	streamState
}

// streamState is a stream. The default ones have no handle.
type streamState struct {
	Handle     dispatch.Stream                `json:"handle,omitempty"`
	ID         uint64                         `json:"id"`
	Attributes map[int32]dispatch.Launchvalue `json:"attributes,omitempty"`
}

func (st *cudaStream) describe(h dispatch.Stream) streamState {
	st.mu.Lock()
	defer st.mu.Unlock()
	return streamState{h, st.id, maps.Clone(st.attributes)}
}

// restore sets what no call has set.
func (st *cudaStream) restore(s *streamState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.id, st.attributes = s.ID, s.Attributes
}

// eventState is an event that was recorded, with timing. All others are as if they never were: done.
type eventState struct {
	Handle dispatch.Event `json:"handle"`
	At     time.Duration  `json:"at"`
}

type poolState struct {
	Handle  dispatch.Mempool   `json:"handle"`
	Ordinal int32              `json:"ordinal"`
	ID      backend.PoolID     `json:"id"`
	Props   dispatch.Poolprops `json:"props"`
}

type memoryState struct {
	Handle  dispatch.Alloc     `json:"handle"`
	Ordinal int32              `json:"ordinal"`
	ID      backend.MemoryID   `json:"id"`
	Size    uint64             `json:"size"`
	Props   dispatch.Allocprop `json:"props"`
}

type pinnedState struct {
	Handle     dispatch.Hostmem `json:"handle"`
	Context    dispatch.Context `json:"context"`
	Size       uint64           `json:"size"`
	Flags      uint32           `json:"flags,omitempty"`
	Registered bool             `json:"registered,omitempty"`
}

// bufferState is an allocation that has a name.
type bufferState struct {
	What backend.Allocation `json:"what"`
	ID   uint64             `json:"id"`
}

// callState is a call of replay. Its bytes follow those of the one before it in the process's file.
type callState struct {
	Op      uint32 `json:"op"`
	Symbol  string `json:"symbol"` // for people
	Context uint64 `json:"context,omitempty"`
	In      int    `json:"in"`
	Out     int    `json:"out"`
}

// sorted is a table's content by handle.
func sorted[H ~uint64, T any](t *table[H, T]) ([]H, []T) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var hs []H
	for h := range t.all {
		hs = append(hs, h)
	}
	slices.Sort(hs)
	vs := make([]T, len(hs))
	for i, h := range hs {
		vs[i] = t.all[h]
	}
	return hs, vs
}

// each calls f for what is in a table, by handle, and collects what it returns.
func each[H ~uint64, T, S any](t *table[H, T], f func(H, T) S) []S {
	hs, vs := sorted(t)
	var out []S
	for i := range hs {
		out = append(out, f(hs[i], vs[i]))
	}
	return out
}

// describe writes a process down, but for its memory and the bytes of its calls. It is stopped.
func (p *process) describe() (*processState, []replay.Call, error) {
	counts, err := p.ring.Counts()
	if err != nil {
		return nil, nil, err
	}
	st := &processState{SavedProcess: p.saved(), Pipe: -1, View: p.view, Counts: counts, Last: map[string]uint64{}, Handles: map[string][]uint64{}}
	if st.Belongings, err = p.belongings(); err != nil {
		return nil, nil, err
	}
	if w, ok := p.peer.(*watched); ok {
		st.Pipe = w.pipe()
	}
	p.mu.Lock()
	st.Lasts, st.Late = p.lasts, int32(p.late)
	for i := range p.devices {
		if d := &p.devices[i]; d.space != nil || d.flags != 0 {
			st.Devices = append(st.Devices, spaceState{
				Ordinal: int32(i), Retained: d.retained, Default: d.defaults, Pool: d.pool, Flags: d.flags,
			})
		}
	}
	p.mu.Unlock()
	for i := range st.Devices {
		st.Devices[i].describe(p)
	}
	st.Contexts = each(&p.contexts, func(_ dispatch.Context, x *cudaContext) contextState { return x.describe(p) })
	st.Streams = each(&p.streams, func(h dispatch.Stream, s *cudaStream) streamState { return s.describe(h) })
	hs, es := sorted(&p.events)
	for i, e := range es {
		if at, err := e.b.Time(); err == nil {
			st.Events = append(st.Events, eventState{hs[i], at + p.server.state.shift})
		}
	}
	st.Pools = each(&p.pools, func(h dispatch.Mempool, m *memoryPool) poolState {
		return poolState{h, m.space.ordinal, m.id, m.props}
	})
	st.Memories = each(&p.memories, func(h dispatch.Alloc, m *physicalMemory) memoryState {
		return memoryState{h, m.space.ordinal, m.id, m.size, m.prop}
	})
	st.Pinned = each(&p.pinned, func(h dispatch.Hostmem, m *pinnedMemory) pinnedState {
		return pinnedState{h, m.context.handle, m.n, m.flags, m.registered}
	})
	st.Modules = p.savedModules()
	st.Graphs = p.graphs.savedMemory()
	st.Members = each(&p.nccl.members, func(h dispatch.Comm, m *member) memberState { return m.describe(h) })
	st.Buffers, st.Buffer = p.buffers.describe()
	for name, t := range p.tables() {
		if n := t.counter(); n != 0 {
			st.Last[string(name)] = n
		}
		if l := t.list(); len(l) > 0 {
			st.Handles[string(name)] = l
		}
	}
	calls := p.history.calls()
	for _, c := range calls {
		rule, _ := replay.Look(c.Op)
		st.Calls = append(st.Calls, callState{c.Op, rule.Symbol, c.Context, len(c.In), len(c.Out)})
	}
	return st, calls, nil
}

func (s *spaceState) describe(p *process) {
	p.mu.Lock()
	sp := p.devices[s.Ordinal].space
	p.mu.Unlock()
	if sp == nil {
		return
	}
	s.State = sp.State()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for o := range sp.reached {
		s.Reaches = append(s.Reaches, o.ordinal)
	}
	slices.Sort(s.Reaches)
}

func (x *cudaContext) describe(p *process) contextState {
	st := contextState{Handle: x.handle, Backend: x.b.ID(), ID: x.id, Legacy: x.legacy.describe(0)}
	p.mu.Lock()
	st.Late = int32(x.late)
	p.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for t, s := range x.perThread {
		st.Threads = append(st.Threads, threadState{t, s.describe(0)})
	}
	slices.SortFunc(st.Threads, func(a, b threadState) int { return cmp.Compare(a.Thread, b.Thread) })
	return st
}

func (b *bufferIDs) describe() ([]bufferState, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []bufferState
	for _, v := range b.all {
		out = append(out, bufferState{v.what, v.id})
	}
	slices.SortFunc(out, func(a, b bufferState) int { return cmp.Compare(a.ID, b.ID) })
	return out, b.last
}

func (b *bufferIDs) restore(all []bufferState, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.all = last, map[backend.Addr]buffer{}
	for _, v := range all {
		b.all[v.What.Base] = buffer{v.What, v.ID}
	}
}

// saved names the process.
func (p *process) saved() SavedProcess {
	pid := int(p.peer.Memory())
	return SavedProcess{ID: p.id, PID: pid, Capsule: innermost(pid)}
}

// innermost is what a process is to itself, or what it is to us if that cannot be told.
func innermost(pid int) int {
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
