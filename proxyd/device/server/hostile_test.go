// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// nobody is a process without memory that can be reached.
type nobody struct{ own }

func (*nobody) Memory() wire.Process { return 1 << 30 }

// shipped are the calls that have messages, except for calls that would wait for an event that never comes.
var shipped = func() []*api.Call {
	table, err := api.Load()
	if err != nil {
		panic(err)
	}
	var out []*api.Call
	for c := range table.Calls {
		if c.Shipped() && !strings.HasPrefix(c.Symbol, "cuStreamWaitValue") && c.Symbol != "cuStreamBatchMemOp_v2" && c.Symbol != "host_func" {
			out = append(out, c)
		}
	}
	return out
}()

// source makes choices out of a fuzzer's bytes; when they are used up, the first choice is taken.
type source struct {
	data  []byte
	pool  []uint64 // numbers to choose from: sizes at their limits, and handles and addresses that exist
	sizes []uint64
}

func (s *source) chooseBelow(n int) int {
	if len(s.data) == 0 || n < 2 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

func (s *source) randomNumber() uint64 {
	v := s.pool[s.chooseBelow(len(s.pool))]
	switch s.chooseBelow(6) {
	case 1:
		v++
	case 2:
		v--
	case 3:
		v += s.pool[s.chooseBelow(len(s.pool))]
	}
	return v
}

// appendValue appends the encoding of a value of a type.
func (s *source) appendValue(b []byte, t *api.Type) []byte {
	if !t.Struct {
		n := t.WireSize()
		v := s.randomNumber()
		if n < 8 && s.chooseBelow(4) > 0 { // mostly enumerations, flags and ordinals
			v = uint64(s.chooseBelow(8))
		}
		return append(b, binary.LittleEndian.AppendUint64(nil, v)[:n]...)
	}
	begin := len(b)
	b = append(b, make([]byte, t.Size)...)
	for _, f := range t.Fields {
		for i := range max(f.N, 1) {
			one := s.appendValue(nil, f.Type)
			copy(b[begin+f.Offset+i*len(one):begin+t.Size], one)
		}
	}
	return b
}

// randomMessage makes a message of a call that dispatch accepts: the lengths are right, and all other values are
// arbitrary.
func (s *source) randomMessage(c *api.Call) []byte {
	lengths := map[string]uint64{}
	for _, a := range c.Args {
		if a.Count.Arg == "" {
			continue
		}
		if _, known := lengths[a.Count.Arg]; known {
			continue
		}
		lengths[a.Count.Arg] = uint64(s.chooseBelow(4))
		if a.Dir == api.Out && s.chooseBelow(2) == 1 && !slices.ContainsFunc(c.Args, func(b api.Arg) bool {
			return b.Dir != api.Out && b.Count.Arg == a.Count.Arg
		}) {
			lengths[a.Count.Arg] = s.sizes[s.chooseBelow(len(s.sizes))]
		}
	}
	var b []byte
	for _, a := range c.Args {
		made := a.Verb == api.Make && a.Dir == api.Out && a.Type.Maker == api.ByClient
		n := uint64(a.Count.Fixed)
		if a.Count.Arg != "" {
			n = lengths[a.Count.Arg]
		}
		switch {
		case a.Dir == api.Out && !made:
			if a.Opt {
				b = append(b, byte(s.chooseBelow(2)))
			}
		case a.Type.Word == "string":
			b = append(binary.LittleEndian.AppendUint64(b, 3), "abc"...)
		case a.Count.IsArray():
			b = binary.LittleEndian.AppendUint64(b, n)
			for range n {
				b = s.appendValue(b, a.Type)
			}
		default:
			if v, counts := lengths[a.Name]; counts {
				b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:a.Type.WireSize()]...)
				continue
			}
			if a.Opt {
				b = append(b, byte(s.chooseBelow(2)))
			}
			b = s.appendValue(b, a.Type)
		}
	}
	return b
}

// makeHostile makes a process that has an object of each class, and a source that makes messages.
func makeHostile(t testing.TB, s *Server, data []byte) (*process, *client, *source) {
	t.Helper()
	ring, err := wire.Create(wire.Options{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := connectRing(t, ring.File(), 0)
	p, err := s.makeProcess(ring, &nobody{own{ended: make(chan string)}}, visibility{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c.beginContext(ctxB, 1)
	b := c.alloc(1 << 12)
	c.beginContext(ctxA, 0)
	a := c.alloc(1 << 20)
	c.must("cuStreamCreate", uint64(streamA), uint32(0))
	c.must("cuEventCreate", uint64(eventA), uint32(0))
	pool := c.callForNumber("cuDeviceGetDefaultMemPool", int32(0))
	mem := c.callForNumber("cuMemCreate", uint64(backend.Granule), dispatch.Allocprop{Type: 1, Location: dispatch.Location{Type: 1}}, uint64(0))
	at := c.callForNumber("cuMemAddressReserve", uint64(8*backend.Granule), uint64(0), uint64(0), uint64(0))
	src := &source{data: data, sizes: []uint64{0, 1, 4, 1 << 10, 8192, 1 << 16, 1 << 20}}
	src.pool = []uint64{
		0, 1, 2, 3, 4, 8, 16, 255, 512, 4096, 1 << 20, backend.Granule, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1 << 47, 1 << 63, math.MaxUint64,
		uint64(backend.DefaultBase), ctxA, ctxB, streamA, eventA, streamB, eventB, a, a + 4096, b, pool, mem, at, at + backend.Granule,
		handles.NVMLClass.Handle(1), handles.FirstServer,
	}
	src.pool = append(src.pool, c.makeObjects()...)
	return p, c, src
}

// sendJunk sends as many messages as the source has choices for, at most 64.
func sendJunk(c *client, src *source) {
	for i := 0; i < 64 && len(src.data) > 0; i++ {
		call := shipped[(src.chooseBelow(256)<<8|src.chooseBelow(256))%len(shipped)]
		op := call.Op()
		if call.PerThread != "" && src.chooseBelow(4) == 1 {
			op |= dispatch.PerThread
		}
		b := binary.LittleEndian.AppendUint64(nil, []uint64{ctxA, ctxB, 0, streamA}[src.chooseBelow(4)])
		b = append(b, src.randomMessage(call)...)
		if src.chooseBelow(32) == 1 && len(b) > 8 {
			b = b[:8+src.chooseBelow(len(b)-8)] // cut off
		}
		// host_func_next waits until there is a function to call, and no stream here waits for a function.
		if info, _ := dispatch.Look(op); info.Posted || info.Symbol == "host_func_next" || src.chooseBelow(16) == 1 {
			c.sendMessage(op, false, b, 0)
		} else {
			c.ask(op, b)
		}
		if c.isClosed() {
			return
		}
	}
}

// FuzzCalls: a process sends arbitrary messages. The server goes on, serves other processes, and frees the objects of
// the process.
func FuzzCalls(f *testing.F) {
	for i := range 25 {
		b := make([]byte, 400)
		x := uint32(i)*2654435761 + 1
		for k := range b {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			b[k] = byte(x >> 16)
		}
		f.Add(b)
	}
	s := newServer(f, 2)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, c, src := makeHostile(t, s, data)
		sendJunk(c, src)
		p.endProcess("the test is over")
		<-p.gone
		for _, d := range s.devices {
			if !d.Place().TimeSlices.IsEmpty() {
				t.Error("spaces are left")
			}
		}
	})
}

// FuzzMessage: bytes that need not be a message.
func FuzzMessage(f *testing.F) {
	for i, c := range shipped {
		if i%8 == 0 {
			f.Add(c.Op(), make([]byte, 64))
		}
	}
	f.Add(uint32(wire.OpLong), make([]byte, 48))
	f.Add(uint32(wire.OpMissed), []byte("\x00\x00\x00\x00\x00\x00\x00\x00cuFoo\xff"))
	s := newServer(f, 1)
	f.Fuzz(func(t *testing.T, op uint32, data []byte) {
		if len(data) > 1<<15 || op == wire.OpExit || strings.HasPrefix(symbolOf(op), "cuStreamWaitValue") {
			t.Skip()
		}
		p, cs := attachProcess(t, s, 2)
		cs[0].sendMessage(op, false, data, 0)
		cs[1].ask(op, data)
		p.endProcess("the test is over")
		<-p.gone
	})
}

func symbolOf(op uint32) string {
	info, _ := dispatch.Look(op)
	return info.Symbol
}
