// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package backendtest defines what a backend is: each test of each backend runs the same cases, right use and wrong use
// with the driver's error numbers.
package backendtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Except are cases that a backend is excused from, by their names, and why.
type Except map[string]string

// Run runs all cases. open makes a backend with devices of at least 256 MiB, for a single case each; the suite closes it.
// With one device the cases that need a second are skipped, and say so.
func Run(t *testing.T, open func(t *testing.T) backend.Backend, except ...Except) {
	excused := Except{}
	for _, e := range except {
		maps.Copy(excused, e)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if why, ok := excused[c.name]; ok {
				t.Skip("excused: " + why)
			}
			b := open(t)
			if len(b.Devices()) == 0 {
				t.Fatal("there is no device")
			}
			r := newRig(t, b, b.Devices()[0], backend.SpaceConfig{Memory: smallMemory})
			c.run(r)
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

const smallMemory = 64 << 20

var cases = []struct {
	name string
	run  func(*rig)
}{
	{"devices", devices},
	{"spaces", spaces},
	{"one space mapped at a time", mapping},
	{"a space gives way while it waits in a collective", exchanging},
	{"a space gives way while it waits for the program", waiting},
	{"closed space", closedSpace},
	{"a paused space", testPausing},
	{"a paused kernel", pausedKernel},
	{"a space moves to another device", testMove},
	{"an exchange that is put back", putBackExchange},
	{"memory freed under held work", freeingHeld},
	{"a stream that is full", fullStream},
	{"contexts", contexts},
	{"limits", limits},

	{"allocate", allocate},
	{"out of memory", outOfMemory},
	{"same calls, same addresses", sameAddresses},
	{"memory is zero", zeroed},
	{"free behind work", freeBehindWork},
	{"lookup", lookup},
	{"pitch", pitch},
	{"virtual memory", virtual},
	{"virtual memory released under work", virtualReleased},
	{"virtual memory misused", virtualMisused},
	{"pools", pools},
	{"stream-ordered memory", streamOrdered},
	{"stream-ordered memory in the wrong order", wrongOrder},
	{"host memory", hostMemory},
	{"peers", peers},

	{"copies", copies},
	{"copies misused", copiesMisused},
	{"fills", fills},
	{"copies from nowhere", copiesUnreachable},
	{"fills misused", fillsMisused},
	{"streams overlap", overlap},
	{"legacy stream", legacyStream},
	{"priorities", priorities},
	{"events", events},
	{"event times", eventTimes},
	{"wait for an event", waitEvent},
	{"wait for a value", waitValue},
	{"what work is doing", workStates},
	{"host functions", hostFunctions},
	{"exchange", exchange},
	{"destroyed handles", destroyed},

	{"many threads", manyThreads},

	{"modules", modules},
	{"images misused", imagesMisused},
	{"link", link},
	{"function attributes", functionAttributes},
	{"launch", launchKernel},
	{"launch refused", launchRefused},
	{"cooperative launch", cooperative},
	{"print", printing},
	{"malloc in kernels", kernelHeap},
	{"faults stay", faults},

	{"graph", graphRun},
	{"graph of all kinds", graphKinds},
	{"graph updates", graphUpdates},

	{"state", state},
	{"blocks", blocks},
	{"restore", restore},
	{"restore refused", restoreRefused},
	{"restore graphs", restoreGraphs},
}

// rig is a space with a context, mapped.
type rig struct {
	*testing.T
	b      backend.Backend
	dev    backend.Device
	space  backend.Space
	cu     backend.Context
	stream backend.Stream
	ctx    context.Context
}

func newRig(t *testing.T, b backend.Backend, d backend.Device, cfg backend.SpaceConfig) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{T: t, b: b, dev: d, ctx: ctx}
	r.space = must(d.NewSpace(cfg))(r)
	r.ok(r.space.Map())
	r.cu = must(r.space.NewContext(0))(r)
	r.stream = must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	return r
}

// secondDevice is a second device. Without, the case ends as skipped.
func (r *rig) secondDevice() backend.Device {
	r.Helper()
	if len(r.b.Devices()) < 2 {
		r.Skip("there is one device, and this case needs two")
	}
	return r.b.Devices()[1]
}

// must returns the result of a call that did not fail.
func must[T any](v T, err error) func(*rig) T {
	return func(r *rig) T {
		r.Helper()
		r.ok(err)
		return v
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// want checks an error's number.
func (r *rig) want(what string, err error, want backend.Result) {
	r.Helper()
	if got := backend.ResultOf(err); got != want {
		r.Errorf("%s: %v (%v), want %v", what, got, err, want)
	}
}

func equal[T comparable](r *rig, what string, got, want T) {
	r.Helper()
	if got != want {
		r.Errorf("%s: %v, want %v", what, got, want)
	}
}

// sync waits for the rig's stream.
func (r *rig) sync() {
	r.Helper()
	r.ok(r.stream.Synchronize(r.ctx))
}

func (r *rig) alloc(n uint64) backend.Addr {
	r.Helper()
	return must(r.cu.Alloc(n))(r)
}

// host is a program's memory, with the first byte at hostBase.
type host []byte

const hostBase = 0x5555_0000_0000

func (h host) Read(addr uint64, p []byte) error  { return h.at(addr, p, func(b []byte) { copy(p, b) }) }
func (h host) Write(addr uint64, p []byte) error { return h.at(addr, p, func(b []byte) { copy(b, p) }) }

func (h host) at(addr uint64, p []byte, f func([]byte)) error {
	if addr < hostBase || addr-hostBase > uint64(len(h)) || uint64(len(p)) > uint64(len(h))-(addr-hostBase) {
		return backend.InvalidValue
	}
	f(h[addr-hostBase:])
	return nil
}

// apart is a space's place beside that of the rig's: spaces with addresses in common may not be mapped at the same time.
func (r *rig) apart() backend.SpaceConfig {
	return backend.SpaceConfig{Memory: smallMemory, Base: backend.DefaultBase + backend.Addr(backend.SpaceSize(smallMemory))}
}

func dev(a backend.Addr) backend.Place { return backend.Place{Addr: uint64(a)} }
func mem(b []byte) backend.Place       { return backend.Place{Host: host(b), Addr: hostBase} }

// put and get copy bytes to the device and back, and wait.
func (r *rig) put(a backend.Addr, b []byte) {
	r.Helper()
	r.ok(r.stream.Copy(backend.Copy{Src: mem(b), Dst: dev(a), Width: uint64(len(b))}))
	r.sync()
}

func (r *rig) get(a backend.Addr, n int) []byte {
	r.Helper()
	b := make([]byte, n)
	r.ok(r.stream.Copy(backend.Copy{Src: dev(a), Dst: mem(b), Width: uint64(n)}))
	r.sync()
	return b
}

func (r *rig) has(what string, a backend.Addr, want []byte) {
	r.Helper()
	if got := r.get(a, len(want)); !bytes.Equal(got, want) {
		r.Errorf("%s: % x, want % x", what, got[:min(len(got), 32)], want[:min(len(want), 32)])
	}
}

func words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// pattern is n bytes that differ from their neighbours'.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// args is a block of parameters: addresses first, then words.
func args(addrs []backend.Addr, v ...uint32) []byte {
	var b []byte
	for _, a := range addrs {
		b = binary.LittleEndian.AppendUint64(b, uint64(a))
	}
	return append(b, words(v...)...)
}

// load loads the suite's kernels.
func (r *rig) load() backend.Module {
	r.Helper()
	m, log, err := r.cu.Load([]byte(Kernels), backend.LoadConfig{})
	if err != nil {
		r.Fatalf("%v\n%s", err, log.Error)
	}
	return m
}

func (r *rig) function(m backend.Module, name string) backend.Function {
	r.Helper()
	return must(m.Function(name))(r)
}

var one = backend.Dim{X: 1, Y: 1, Z: 1}

// run launches a kernel of n threads in a block.
func (r *rig) run(f backend.Function, n uint32, params []byte) error {
	return r.stream.Launch(backend.Launch{Function: f, Grid: one, Block: backend.Dim{X: n, Y: 1, Z: 1}, Params: params})
}
