// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// act is a single call of the backend's in a script.
type act struct {
	name string
	do   func(p *play) error
}

// play has the objects that the steps of a script have made.
type play struct {
	b      *Backend
	space  backend.Space
	cu     backend.Context
	stream backend.Stream
	event  backend.Event
	module backend.Module
	exec   backend.Exec
	small  backend.Addr
	large  backend.Addr
	ranged backend.Addr
	memory backend.MemoryID
	ctx    context.Context
}

// bytesOfHost is a program's memory.
type bytesOfHost []byte

func (h bytesOfHost) Read(at uint64, p []byte) error  { copy(p, h[at:]); return nil }
func (h bytesOfHost) Write(at uint64, p []byte) error { copy(h[at:], p); return nil }

// awaitedHost is a program's memory. Its copies go on only when Synchronize waits for them: else a quick copy would be
// over before Synchronize looks, which then makes no call.
type awaitedHost struct {
	bytesOfHost
	stream *stream
}

func (h awaitedHost) Read(at uint64, p []byte) error {
	h.stream.awaitFence()
	return h.bytesOfHost.Read(at, p)
}

func (h awaitedHost) Write(at uint64, p []byte) error {
	h.stream.awaitFence()
	return h.bytesOfHost.Write(at, p)
}

// awaitFence waits until a fence is queued, or the context has a fault, after which there will be no fence.
func (st *stream) awaitFence() {
	for st.context.Err() == nil {
		st.Mu.Lock()
		fenced := slices.ContainsFunc(st.Queue, func(j *task) bool { return j.fence })
		st.Mu.Unlock()
		if fenced {
			return
		}
		runtime.Gosched()
	}
}

// onHost is a side of a copy in the program's memory, which goes on when Synchronize waits.
func (p *play) onHost(h bytesOfHost) backend.CopySide {
	return backend.CopySide{Host: awaitedHost{h, p.stream.(*stream)}}
}

func placeAt(a backend.Addr) backend.CopySide { return backend.CopySide{Addr: uint64(a)} }

func dimOf(x uint32) backend.Dim { return backend.Dim{X: x, Y: 1, Z: 1} }

func (p *play) launch(name string, grid uint32, cooperative bool) (backend.Launch, error) {
	f, err := p.module.Function(name)
	if err != nil {
		return backend.Launch{}, err
	}
	params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, uint64(p.small)), 5)
	return backend.Launch{Function: f, Grid: dimOf(grid), Block: dimOf(32), Params: params, Cooperative: cooperative}, nil
}

// clusterOf is the attribute of a launch in clusters of so many blocks.
func clusterOf(blocks uint64) []backend.LaunchAttribute {
	return []backend.LaunchAttribute{{ID: backend.AttributeClusterDimension, Value: [8]uint64{1<<32 | blocks, 1}}}
}

// runClusters runs a graph of a kernel in clusters, and a kernel without.
func (p *play) runClusters(cooperative bool) error {
	var err error
	g := &backend.Graph{}
	var before []backend.NodeID
	for _, attributes := range [][]backend.LaunchAttribute{clusterOf(2), nil} {
		l, err := p.launch("add", 2, cooperative)
		if err != nil {
			return err
		}
		l.Attributes = attributes
		n, err := g.Add(backend.KernelNode{Launch: l}, before...)
		if err != nil {
			return err
		}
		before = []backend.NodeID{n}
	}
	if p.exec, err = p.cu.Instantiate(g); err != nil {
		return err
	}
	return p.stream.Graph(p.exec)
}

// sumOfLists adds up the arguments of a tensor map as the fake driver does.
func sumOfLists[T uint32 | int32 | uint64](at uint64, list ...T) uint64 {
	for _, v := range list {
		n := uint64(v)
		if any(v) != any(n) {
			n = uint64(uint32(v))
		}
		at = at*31 + n
	}
	return at
}

// makeTensorMaps makes a map of each kind, and compares it with the map that the fake driver makes of these
// arguments.
func makeTensorMaps(d backend.TensorMapper) error {
	s := backend.TensorShape{
		Type: 6, Interleave: 1, Mode: 2, Swizzle: 3, Promotion: 4, Fill: 5, Rank: 4, Channels: 7, Pixels: 8, Address: 0x123450,
		Dim: [5]uint64{11, 12, 13, 14}, Strides: [5]uint64{1 << 33, 22, 23}, Box: [5]uint32{31, 32, 33, 34}, Steps: [5]uint32{41, 42, 43, 44},
		Lower: [5]int32{-1, -2}, Upper: [5]int32{3, -4},
	}
	lists := sumOfLists(sumOfLists(0, s.Dim[:4]...), s.Strides[:3]...)
	for _, want := range []struct {
		kind           backend.TensorKind
		numbers, lists uint64
	}{
		{backend.TensorTiled, sumOfLists[int32](0, 6, 4, 1, 3, 4, 5), sumOfLists(sumOfLists(lists, s.Box[:4]...), s.Steps[:4]...)},
		{backend.TensorIm2col, sumOfLists[int32](0, 6, 4, 7, 8, 1, 3, 4, 5), sumOfLists(sumOfLists(sumOfLists(lists, s.Lower[:2]...), s.Upper[:2]...), s.Steps[:4]...)},
		{backend.TensorIm2colWide, sumOfLists[int32](0, 6, 4, -1, 3, 7, 8, 1, 2, 3, 4, 5), sumOfLists(lists, s.Steps[:4]...)},
	} {
		s.Kind = want.kind
		m, err := d.MakeTensorMap(&s)
		if err != nil {
			return err
		}
		all := backend.TensorMap{uint64(want.kind) + 1, uint64(s.Address), want.numbers, want.lists}
		if m != all {
			return fmt.Errorf("tensor map of kind %d: %x, want %x", want.kind, m, all)
		}
		m, err = d.MoveTensorMap(m, 0x777770)
		if err != nil {
			return err
		}
		if all[1] = 0x777770; m != all {
			return fmt.Errorf("moved tensor map of kind %d: %x, want %x", want.kind, m, all)
		}
	}
	s.Kind = 3
	if _, err := d.MakeTensorMap(&s); backend.ResultOf(err) != backend.InvalidValue {
		return fmt.Errorf("tensor map of an unknown kind: %w", err)
	}
	return nil
}

func (p *play) graph() (*backend.Graph, error) {
	l, err := p.launch("add", 1, false)
	if err != nil {
		return nil, err
	}
	g := &backend.Graph{}
	fill, err := g.Add(backend.FillNode{Fill: backend.Fill{Addr: p.small, Value: 1, Element: 4, Width: 4}})
	if err != nil {
		return nil, err
	}
	kernel, err := g.Add(backend.KernelNode{Launch: l}, fill)
	if err != nil {
		return nil, err
	}
	empty, err := g.Add(backend.EmptyNode{}, fill)
	if err != nil {
		return nil, err
	}
	_, err = g.Add(backend.CopyNode{Copy: backend.Copy{Src: placeAt(p.small), Dst: placeAt(p.small + 64), Width: 16}}, kernel, empty)
	return g, err
}

// script is a program's life, with each kind of call in it. A step waits for work that would go on after
// the step, so that the driver's calls come in a single order.
var script = []act{
	{"space", func(p *play) (err error) {
		p.space, err = p.b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20})
		return err
	}},
	{"map", func(p *play) error { return p.space.Map() }},
	{"groups of processors", func(p *play) error {
		groups, order, err := p.b.Devices()[0].(backend.ProcessorGrouper).ProcessorGroups()
		if err == nil && (len(groups) != 54 || groups[53] != 5 || len(order) != 54 || order[53] != 0 || order[0] != 53) {
			err = fmt.Errorf("groups %v, order %v", groups, order)
		}
		return err
	}},
	{"context", func(p *play) (err error) { p.cu, err = p.space.NewContext(0); return err }},
	{"limit", func(p *play) error { return p.cu.SetLimit(backend.LimitStackSize, 2048) }},
	{"stream", func(p *play) (err error) {
		p.stream, err = p.cu.NewStream(backend.StreamConfig{NonBlocking: true, Priority: -2})
		return err
	}},
	{"allocate a little", func(p *play) (err error) { p.small, err = p.cu.Alloc(1000); return err }},
	{"allocate a little more", func(p *play) error { _, err := p.cu.Alloc(1000); return err }},
	{"allocate much", func(p *play) (err error) { p.large, err = p.cu.Alloc(5 << 20); return err }},
	{"fill", func(p *play) error {
		return p.stream.Fill(backend.Fill{Addr: p.small, Value: 0x55, Element: 1, Width: 100})
	}},
	{"fill rows", func(p *play) error {
		return p.stream.Fill(backend.Fill{Addr: p.small, Value: 7, Element: 4, Width: 4, Height: 3, Pitch: 64})
	}},
	{"copy", func(p *play) error {
		return p.stream.Copy(backend.Copy{Src: placeAt(p.small), Dst: placeAt(p.large), Width: 100})
	}},
	{"copy a box", func(p *play) error {
		return p.stream.Copy(backend.Copy{
			Src: backend.CopySide{Addr: uint64(p.small), Pitch: 16, Rows: 4, X: 1, Y: 1}, Dst: backend.CopySide{Addr: uint64(p.large), Pitch: 32, Rows: 8},
			Width: 5, Height: 2, Depth: 3,
		})
	}},
	{"copy in", func(p *play) error {
		if err := p.stream.Copy(backend.Copy{Src: p.onHost(bytesOfHost("hello")), Dst: placeAt(p.small), Width: 5}); err != nil {
			return err
		}
		return p.stream.Synchronize(p.ctx)
	}},
	{"copy out", func(p *play) error {
		h := make(bytesOfHost, 5)
		if err := p.stream.Copy(backend.Copy{Src: placeAt(p.small), Dst: p.onHost(h), Width: 5}); err != nil {
			return err
		}
		if err := p.stream.Synchronize(p.ctx); err != nil || string(h) == "hello" {
			return err
		}
		return fmt.Errorf("read %q", h)
	}},
	{"write 4 bytes", func(p *play) error { return p.stream.Write(p.small, 4, 5) }},
	{"write 8 bytes", func(p *play) error { return p.stream.Write(p.small, 8, 5) }},
	{"event", func(p *play) (err error) { p.event, err = p.cu.NewEvent(backend.EventConfig{}); return err }},
	{"record", func(p *play) error { return p.stream.Record(p.event) }},
	{"wait for the event", func(p *play) error { return p.cu.Legacy().Wait(p.event) }},
	{"the event's time", func(p *play) error {
		if err := p.event.Synchronize(p.ctx); err != nil {
			return err
		}
		_, err := p.event.Time()
		return err
	}},
	{"module", func(p *play) (err error) {
		p.module, _, err = p.cu.Load([]byte(backendtest.Kernels), backend.LoadConfig{MaxRegisters: 32, Verbose: true})
		return err
	}},
	{"link", func(p *play) error {
		_, _, err := p.cu.Link([][]byte{[]byte(backendtest.Needs), []byte(backendtest.Defines)}, backend.LoadConfig{})
		return err
	}},
	{"link what lacks something", func(p *play) error {
		_, log, err := p.cu.Link([][]byte{[]byte(backendtest.Needs)}, backend.LoadConfig{MaxRegisters: 16, Verbose: true})
		if backend.ResultOf(err) == backend.InvalidPTX && log.Error == "undefined variable answer\n" {
			return nil
		}
		return fmt.Errorf("%w, log %q", err, log.Error)
	}},
	{"set an attribute", func(p *play) error {
		f, err := p.module.Function("add")
		if err != nil {
			return err
		}
		return f.SetAttribute(backend.FuncMaxDynamicShared, 100<<10)
	}},
	{"launch", func(p *play) error {
		l, err := p.launch("add", 2, false)
		if err != nil {
			return err
		}
		return p.stream.Launch(l)
	}},
	{"launch together", func(p *play) error {
		l, err := p.launch("add", 2, true)
		if err != nil {
			return err
		}
		return p.stream.Launch(l)
	}},
	{"launch in clusters", func(p *play) error {
		l, err := p.launch("add", 2, false)
		if err != nil {
			return err
		}
		l.Attributes = clusterOf(2)
		return p.stream.Launch(l)
	}},
	{"launch in clusters, together", func(p *play) error {
		l, err := p.launch("add", 2, true)
		if err != nil {
			return err
		}
		l.Attributes = append(clusterOf(2), backend.LaunchAttribute{ID: backend.AttributeStreamSerial, Value: [8]uint64{1}})
		return p.stream.Launch(l)
	}},
	{"ask for clusters", func(p *play) error {
		l, err := p.launch("add", 2, false)
		if err != nil {
			return err
		}
		l.Attributes = clusterOf(2)
		f := l.Function.(backend.ClusterFunction)
		if n, err := f.ActiveClusters(&l); err != nil || n != 66 {
			return fmt.Errorf("%d clusters: %w", n, err)
		}
		if n, err := f.LargestCluster(&l); err != nil || n != 8 {
			return fmt.Errorf("a cluster of %d: %w", n, err)
		}
		return nil
	}},
	{"tensor map", func(p *play) error { return makeTensorMaps(p.b.Devices()[0].(backend.TensorMapper)) }},
	{"graph of clusters", func(p *play) error { return p.runClusters(false) }},
	{"end the graph of clusters", func(p *play) error { return p.exec.Destroy() }},
	{"graph of clusters, together", func(p *play) error { return p.runClusters(true) }},
	{"end the graph of clusters, together", func(p *play) error { return p.exec.Destroy() }},
	{"graph", func(p *play) error {
		g, err := p.graph()
		if err == nil {
			p.exec, err = p.cu.Instantiate(g)
		}
		return err
	}},
	{"run the graph", func(p *play) error { return p.stream.Graph(p.exec) }},
	{"synchronize", func(p *play) error { return p.stream.Synchronize(p.ctx) }},
	{"end the graph", func(p *play) error { return p.exec.Destroy() }},
	{"reserve", func(p *play) (err error) { p.ranged, err = p.space.Reserve(4<<20, 0, 0); return err }},
	{"memory", func(p *play) (err error) { p.memory, err = p.space.NewMemory(2 << 20); return err }},
	{"map memory", func(p *play) error { return p.space.MapMemory(p.ranged, 2<<20, 0, p.memory) }},
	{"allow access", func(p *play) error { return p.space.SetAccess(p.ranged, 2<<20, true) }},
	{"unmap memory", func(p *play) error { return p.space.UnmapMemory(p.ranged, 2<<20) }},
	{"release memory", func(p *play) error { return p.space.ReleaseMemory(p.memory) }},
	{"write a block", func(p *play) error {
		return p.space.WriteBlock(backend.BlockID{Base: p.large}, bytes.Repeat([]byte{3}, backend.Granule))
	}},
	{"free", func(p *play) error { return p.cu.Free(p.small) }},
	{"unmap the space", func(p *play) error {
		if err := p.space.Drain(p.ctx); err != nil {
			return err
		}
		return p.space.Unmap()
	}},
	{"read a block", func(p *play) error {
		_, err := p.space.ReadBlock(backend.BlockID{Base: p.large}, make([]byte, backend.Granule))
		return err
	}},
	{"give a block back", func(p *play) error {
		for i := range backend.Addr(3) {
			if err := p.space.WriteBlock(backend.BlockID{Base: p.large + i*backend.Granule}, nil); err != nil {
				return err
			}
		}
		return nil
	}},
	{"map the space again", func(p *play) error { return p.space.Map() }},
	{"unload", func(p *play) error { return p.module.Unload() }},
	{"end the stream", func(p *play) error { return p.stream.Destroy() }},
	{"end the context", func(p *play) error { return p.cu.Destroy() }},
	{"end the space", func(p *play) error { return p.space.Close() }},
	{"end", func(p *play) error { return p.b.Close() }},
}
