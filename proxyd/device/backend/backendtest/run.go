// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package backendtest defines a backend: the tests of all backends run the same cases of right use and of wrong use,
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

// ExcusedCases lists the cases that a backend is excused from: names, with the reasons.
type ExcusedCases map[string]string

// Run runs all cases. open makes a backend with devices of at least 256 MiB, for a single case each; the suite closes it.
// With one device the cases that need a second are skipped, and say so.
func Run(t *testing.T, open func(t *testing.T) backend.Backend, except ...ExcusedCases) {
	excused := ExcusedCases{}
	for _, e := range except {
		maps.Copy(excused, e)
	}
	runCases(t, open, excused, func() bool { return false })
}

// RunFirst runs the first of the cases that -test.run and -test.skip leave. A process in which a kernel has failed
// cannot use the driver's device any more, so each of the cases that begin with "a fault" needs a process of its own.
func RunFirst(t *testing.T, open func(t *testing.T) backend.Backend, except ExcusedCases) {
	ran := false
	runCases(t, func(t *testing.T) backend.Backend {
		ran = true
		return open(t)
	}, except, func() bool { return ran })
}

func runCases(t *testing.T, open func(t *testing.T) backend.Backend, excused ExcusedCases, enough func() bool) {
	for _, c := range cases {
		if enough() {
			return
		}
		t.Run(c.name, func(t *testing.T) {
			if why, ok := excused[c.name]; ok {
				t.Skip("excused: " + why)
			}
			b := open(t)
			if len(b.Devices()) == 0 {
				t.Fatal("there is no device")
			}
			r := newRig(t, b, b.Devices()[0], backend.SpaceConfig{Memory: smallMemory})
			r.open = open
			c.run(r)
			if err := b.Close(); err != nil && !backend.ResultOf(err).Sticky() {
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
	{"devices", testDevices},
	{"spaces", testSpaces},
	{"one space mapped at a time", testMapping},
	{"a space gives way while it waits in a collective", testExchanging},
	{"a space gives way while it waits for the program", testWaiting},
	{"closed space", testClosedSpace},
	{"a space closed under an exchange", testClosedExchange},
	{"a space closed under a kernel that never ends", testClosedKernel},
	{"a paused space", testPausing},
	{"a paused kernel", testPausedKernel},
	{"a space moves to another device", testMove},
	{"a space moves with its program's objects", testMoveObjects},
	{"a space moves away from its peer", testMovePeers},
	{"an exchange that is put back", testPutBackExchange},
	{"memory freed under held work", testFreeingHeld},
	{"a stream that is full", testFullStream},
	{"contexts", testContexts},
	{"limits", testLimits},

	{"allocate", testAllocate},
	{"out of memory", testOutOfMemory},
	{"same calls, same addresses", testSameAddresses},
	{"memory is zero", testZeroed},
	{"free behind work", testFreeBehindWork},
	{"lookup", testLookup},
	{"pitch", testPitch},
	{"virtual memory", testVirtual},
	{"virtual memory released under work", testVirtualReleased},
	{"virtual memory mapped again under an exchange", testVirtualRemapped},
	{"virtual memory misused", testVirtualMisused},
	{"pools", testPools},
	{"stream-ordered memory", testStreamOrdered},
	{"stream-ordered memory in the wrong order", testWrongOrder},
	{"host memory", testHostMemory},
	{"peers", testPeers},
	{"free what a peer has", testFreeOfPeer},

	{"copies", testCopies},
	{"copies misused", testCopiesMisused},
	{"copies with another backend", testCopiesForeign},
	{"fills", testFills},
	{"copies from nowhere", testCopiesUnreachable},
	{"fills misused", testFillsMisused},
	{"streams overlap", testOverlap},
	{"legacy stream", testLegacyStream},
	{"priorities", testPriorities},
	{"events", testEvents},
	{"event times", testEventTimes},
	{"wait for an event", testWaitEvent},
	{"wait for a value", testWaitValue},
	{"what work is doing", testWorkStates},
	{"host functions", testHostFunctions},
	{"exchange", testExchange},
	{"destroyed handles", testDestroyed},

	{"many threads", testManyThreads},

	{"modules", testModules},
	{"images misused", testImagesMisused},
	{"link", testLink},
	{"function attributes", testFunctionAttributes},
	{"launch", testLaunchKernel},
	{"launch refused", testLaunchRefused},
	{"cooperative launch", testCooperative},
	{"print", testPrinting},
	{"malloc in kernels", testKernelHeap},

	{"graph", testGraphRun},
	{"graph of all kinds", testGraphKinds},
	{"graph updates", testGraphUpdates},

	{"state", testState},
	{"blocks", testBlocks},
	{"restore", testRestore},
	{"restore refused", testRestoreRefused},
	{"restore graphs", testRestoreGraphs},
	{"shared memory", testShared},
	{"shared memory misused", testSharedMisused},
	{"shared memory restored", testSharedRestored},
	{"shared events", testSharedEvents},

	// Last, because real devices cannot be used after these.
	{"a fault at null", func(r *rig) { testFault(r, "poke", faultAt(0), backend.IllegalAddress) }},
	{"a fault at an address of nothing", func(r *rig) { testFault(r, "poke", faultAt(1<<46), backend.IllegalAddress) }},
	{"a fault beyond the end", func(r *rig) { testFault(r, "poke", faultBehind(granule), backend.IllegalAddress) }},
	{"a fault at a crooked address", func(r *rig) { testFault(r, "poke", faultBehind(1), backend.MisalignedAddress) }},
	{"a fault by trap", func(r *rig) { testFault(r, "stop", noParams, backend.LaunchFailed) }},
	{"a fault by assert", func(r *rig) { testFault(r, "claim", noParams, backend.Assert) }},
	{"a fault in a graph", testFaultInGraph},
	{"other contexts go on behind a fault", testFaultAlone},
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
	open   func(*testing.T) backend.Backend // makes another backend, which the case closes
}

func newRig(t *testing.T, b backend.Backend, d backend.Device, cfg backend.SpaceConfig) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{T: t, b: b, dev: d, ctx: ctx}
	r.space = must(d.NewSpace(cfg))(r)
	r.mustSucceed(r.space.Map())
	r.cu = must(r.space.NewContext(0))(r)
	r.stream = must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	return r
}

// secondDevice returns a second device, or skips the case.
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
		r.mustSucceed(err)
		return v
	}
}

func (r *rig) mustSucceed(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// wantError checks an error's number.
func (r *rig) wantError(what string, err error, want backend.Result) {
	r.Helper()
	if got := backend.ResultOf(err); got != want {
		r.Errorf("%s: %v (%v), want %v", what, got, err, want)
	}
}

func checkEqual[T comparable](r *rig, what string, got, want T) {
	r.Helper()
	if got != want {
		r.Errorf("%s: %v, want %v", what, got, want)
	}
}

// syncStream waits for the rig's stream.
func (r *rig) syncStream() {
	r.Helper()
	r.mustSucceed(r.stream.Synchronize(r.ctx))
}

func (r *rig) allocBytes(n uint64) backend.Addr {
	r.Helper()
	return must(r.cu.Alloc(n))(r)
}

// host is a program's memory, with the first byte at hostBase.
type host []byte

const hostBase = 0x5555_0000_0000

func (h host) Read(addr uint64, p []byte) error {
	return h.accessBytes(addr, p, func(b []byte) { copy(p, b) })
}
func (h host) Write(addr uint64, p []byte) error {
	return h.accessBytes(addr, p, func(b []byte) { copy(b, p) })
}

func (h host) accessBytes(addr uint64, p []byte, f func([]byte)) error {
	if addr < hostBase || addr-hostBase > uint64(len(h)) || uint64(len(p)) > uint64(len(h))-(addr-hostBase) {
		return backend.InvalidValue
	}
	f(h[addr-hostBase:])
	return nil
}

// configApart returns a space's place beside the place of the rig's space: spaces with addresses in common may not be
// mapped at the same time.
func (r *rig) configApart() backend.SpaceConfig {
	return backend.SpaceConfig{Memory: smallMemory, Base: backend.DefaultBase + backend.Addr(backend.SpaceSize(smallMemory))}
}

func deviceAt(a backend.Addr) backend.CopySide { return backend.CopySide{Addr: uint64(a)} }
func hostBytes(b []byte) backend.CopySide      { return backend.CopySide{Host: host(b), Addr: hostBase} }

// copyIn and copyOut copy bytes to the device and back, and wait.
func (r *rig) copyIn(a backend.Addr, b []byte) {
	r.Helper()
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: hostBytes(b), Dst: deviceAt(a), Width: uint64(len(b))}))
	r.syncStream()
}

func (r *rig) copyOut(a backend.Addr, n int) []byte {
	r.Helper()
	b := make([]byte, n)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: hostBytes(b), Width: uint64(n)}))
	r.syncStream()
	return b
}

func (r *rig) wantBytes(what string, a backend.Addr, want []byte) {
	r.Helper()
	if got := r.copyOut(a, len(want)); !bytes.Equal(got, want) {
		r.Errorf("%s: % x, want % x", what, got[:min(len(got), 32)], want[:min(len(want), 32)])
	}
}

func joinWords(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// makePattern returns n bytes that differ from their neighbours'.
func makePattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// joinArgs makes a block of parameters: addresses first, then words.
func joinArgs(addrs []backend.Addr, v ...uint32) []byte {
	var b []byte
	for _, a := range addrs {
		b = binary.LittleEndian.AppendUint64(b, uint64(a))
	}
	return append(b, joinWords(v...)...)
}

// loadKernels loads the suite's kernels.
func (r *rig) loadKernels() backend.Module {
	r.Helper()
	m, log, err := r.cu.Load([]byte(Kernels), backend.LoadConfig{})
	if err != nil {
		r.Fatalf("%v\n%s", err, log.Error)
	}
	return m
}

func (r *rig) findKernel(m backend.Module, name string) backend.Function {
	r.Helper()
	return must(m.Function(name))(r)
}

var one = backend.Dim{X: 1, Y: 1, Z: 1}

// runKernel launches a kernel of n threads in a block.
func (r *rig) runKernel(f backend.Function, n uint32, params []byte) error {
	return r.stream.Launch(backend.Launch{Function: f, Grid: one, Block: backend.Dim{X: n, Y: 1, Z: 1}, Params: params})
}
