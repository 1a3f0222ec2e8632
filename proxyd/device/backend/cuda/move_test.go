// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

// mover is a space that is about to move: with memory, a module with a variable that counts launches, and a graph.
type mover struct {
	*poolRig
	library *fakecuda.Library
	from    *device
	to      *device
	module  backend.Module
	at      backend.Addr
	counter backend.Addr
	count   byte
	exec    backend.Exec
}

const (
	moverDevice = 64 << 20
	moverSize   = 6 << 20
	moverOwner  = 21
)

func newMover(t *testing.T) *mover {
	t.Helper()
	l := newFakeLibrary(t)
	log := filepath.Join(t.TempDir(), "calls")
	l.Reset(log, moverDevice)
	b := openBackend(t, l)
	x := &mover{poolRig: &poolRig{T: t, b: b, log: log}, library: l, from: b.list[0], to: b.list[1]}
	driver.RestartPlace(moverOwner) // of earlier tests: their contexts are gone
	var err error
	x.space, err = x.from.NewSpace(backend.SpaceConfig{Memory: 32 << 20, Owner: moverOwner})
	x.mustSucceed(err)
	x.mustSucceed(x.space.Map())
	x.cu, x.stream = x.newStream(x.space)
	x.at, err = x.cu.Alloc(moverSize)
	x.mustSucceed(err)
	x.fill(x.at, moverSize, 3)
	x.fill(x.at+moverSize-backend.Granule, backend.Granule, 4) // blocks that are alike would be swapped once
	x.loadModule()
	g := &backend.Graph{}
	_, err = g.Add(backend.FillNode{Fill: backend.Fill{Addr: x.at, Value: 9, Element: 1, Width: 4}})
	x.mustSucceed(err)
	x.exec, err = x.cu.Instantiate(g)
	x.mustSucceed(err)
	x.useSpace()
	x.leaveDevice()
	return x
}

func (x *mover) loadModule() {
	x.Helper()
	m, _, err := x.cu.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
	x.mustSucceed(err)
	g, err := m.Global("counter")
	x.mustSucceed(err)
	x.module, x.counter, x.count = m, g.Addr, 7
}

func (x *mover) move(to *device) error { return x.space.(backend.Mover).Move(to) }

// leaveDevice unmaps the space.
func (x *mover) leaveDevice() {
	x.Helper()
	x.mustSucceed(x.space.Drain(x.Context()))
	x.mustSucceed(x.space.Unmap())
}

// useSpace runs a kernel and a graph in the space, which is mapped, and checks all bytes.
func (x *mover) useSpace() {
	x.Helper()
	f, err := x.module.Function("bump")
	x.mustSucceed(err)
	params := []byte{7: 0}
	for i := range params {
		params[i] = byte(uint64(x.at+16) >> (8 * i))
	}
	x.mustSucceed(x.stream.Launch(backend.Launch{Function: f, Grid: backend.Dim{X: 1, Y: 1, Z: 1}, Block: backend.Dim{X: 1, Y: 1, Z: 1}, Params: params}))
	x.mustSucceed(x.stream.Graph(x.exec))
	want := bytes.Repeat([]byte{3}, moverSize)
	copy(want[moverSize-backend.Granule:], bytes.Repeat([]byte{4}, backend.Granule))
	copy(want, []byte{9, 9, 9, 9})
	copy(want[16:], []byte{x.count, 0, 0, 0})
	x.count++
	if got := x.bytes(x.at, moverSize); !bytes.Equal(got, want) {
		x.Errorf("the memory begins with % x, want % x", got[:24], want[:24])
	}
	if got := x.bytes(x.counter, 4); got[0] != x.count {
		x.Errorf("the variable is %d, want %d", got[0], x.count)
	}
}

// checkWhere checks that the space is on a device, and has no memory on the other device.
func (x *mover) checkWhere(on *device) {
	x.Helper()
	other := x.from
	if on == x.from {
		other = x.to
	}
	if x.space.(*space).currentDevice() != on {
		x.Fatal("the space is on the wrong device")
	}
	other.holdings.mu.Lock()
	if n, bytes := len(other.holdings.memories), other.holdings.now; n+int(bytes) > 0 {
		x.Errorf("%d memories are on the other device, of which %d bytes are there", n, bytes)
	}
	other.holdings.mu.Unlock()
	x.mustSucceed(x.space.Map())
	x.useSpace()
	x.leaveDevice()
}

// TestMove: a space that has moved has all of its memory, variables and objects on the new device, and moves back.
func TestMove(t *testing.T) {
	x := newMover(t)
	live := x.library.Live()
	x.checkWhere(x.from)
	x.mustSucceed(x.move(x.to))
	x.checkWhere(x.to)
	x.mustSucceed(x.move(x.from))
	x.checkWhere(x.from)
	if s := x.from.Swapped(); s.Out+s.In > 0 {
		t.Errorf("swapped %+v: memory went through the host's", s)
	}
	// The second device's own context has stayed, with its driver streams.
	x.mustSucceed(x.to.stopService())
	if now := x.library.Live(); now != live {
		t.Errorf("there are %s, and were %s", now, live)
	}
}

// moveCalls are the driver's calls of a move, by their names.
func moveCalls(t *testing.T) map[string]int {
	x := newMover(t)
	x.mustSucceed(x.to.serviceContext())
	x.countCalls()
	x.mustSucceed(x.move(x.to))
	all := x.countCalls()
	delete(all, "") // lines of the log without a call
	x.mustSucceed(x.b.Close())
	return all
}

// TestMoveFails has each call of the driver in a move fail, one after the other. Then the space is on its old device,
// unchanged; or the space has moved, if the call was to end an object.
func TestMoveFails(t *testing.T) {
	for call, n := range moveCalls(t) {
		for k := 1; k <= n; k++ {
			if testing.Short() && k > 1 && k < n {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", call, k), func(t *testing.T) {
				x := newMover(t)
				x.mustSucceed(x.to.serviceContext())
				x.library.Fail(call, k, int(backend.OutOfMemory))
				err := x.move(x.to)
				if !x.library.Failed() && call == "cuEventQuery" {
					t.Skip("so many questions were not asked this time")
				}
				if !x.library.Failed() {
					t.Fatal("the call was not made")
				}
				if err != nil {
					x.checkWhere(x.from)
					x.mustSucceed(x.move(x.to))
				}
				x.checkWhere(x.to)
				x.mustSucceed(x.space.Close())
			})
		}
	}
}

// TestMoveLost: if the driver makes the contexts on neither device, the contexts have a fault, and no memory is left.
func TestMoveLost(t *testing.T) {
	x := newMover(t)
	x.mustSucceed(x.to.serviceContext())
	x.library.FailFrom("cuCtxCreate_v2", 5, int(backend.OutOfMemory)) // the first are checkRepeating's and the rehearsal's
	if err := x.move(x.to); backend.ResultOf(err) != backend.OutOfMemory {
		t.Errorf("Move = %v, want OutOfMemory", err)
	}
	if err := x.cu.Err(); !backend.ResultOf(err).Sticky() {
		t.Errorf("the context has the fault %v", err)
	}
	x.mustSucceed(x.space.Close())
}

// TestMoveNoRoom: memory for which the new device has no room goes to the host's, and comes to the device with the space.
func TestMoveNoRoom(t *testing.T) {
	x := newMover(t)
	s, err := x.to.NewSpace(backend.SpaceConfig{Base: 60 << 40, Owner: 22})
	x.mustSucceed(err)
	x.mustSucceed(s.Map())
	cu, _ := x.newStream(s)
	_, err = cu.Alloc(x.to.info.Memory)
	x.mustSucceed(err)
	a, err := x.to.createMemory(reservedBytes(moverDevice)) // all that is left
	x.mustSucceed(err)
	x.mustSucceed(x.move(x.to))
	if n := x.from.Swapped().Out; n != moverSize {
		t.Errorf("%d bytes went to the host's memory, want the program's %d: where its variables will be saved are zeros", n, moverSize)
	}
	x.mustSucceed(s.Unmap())
	x.checkWhere(x.to)
	x.mustSucceed(x.b.drv.Release(a))
	x.mustSucceed(s.Close())
}

// TestMoveVariables: a space is not moved if a variable would not be where the program may know it is.
func TestMoveVariables(t *testing.T) {
	x := newMover(t)
	x.mustSucceed(x.space.Map())
	before := x.module
	x.loadModule()
	x.mustSucceed(before.Unload())
	x.mustSucceed(x.space.Drain(t.Context()))
	x.useSpace()
	x.leaveDevice()
	err := x.move(x.to)
	if backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "variable") {
		t.Errorf("Move = %v, want NotSupported and the name of a variable", err)
	}
	x.checkWhere(x.from)
}

// TestMoveKept: over a driver that does not give the same addresses again, a space with variables stays where it is: its
// contexts have not ended.
func TestMoveKept(t *testing.T) {
	x := newMover(t)
	x.library.Keep()
	if err := x.move(x.to); backend.ResultOf(err) != backend.NotSupported {
		t.Errorf("Move = %v, want NotSupported", err)
	}
	x.checkWhere(x.from)
}

// TestMoveLent: memory of a collective stays where it is until the collective is over.
func TestMoveLent(t *testing.T) {
	x := newMover(t)
	x.mustSucceed(x.space.Map())
	began := make(chan func(error), 1)
	x.mustSucceed(x.stream.Exchange([]backend.Buffer{{Addr: x.at, Size: 64}}, func(_ [][]byte, done func(error)) { began <- done }))
	done := <-began
	for x.space.Unmap() != nil {
		runtime.Gosched() // the stream is about to wait
	}
	if err := x.move(x.to); backend.ResultOf(err) != backend.NotReady {
		t.Errorf("Move during a collective: %v, want NotReady", err)
	}
	done(nil)
	for backend.ResultOf(x.move(x.to)) == backend.NotReady {
		runtime.Gosched() // the memory is about to be given back
	}
	x.checkWhere(x.to)
}

// TestMoveUnloaded: a module that was unloaded, and that held work uses, keeps its space where it is.
func TestMoveUnloaded(t *testing.T) {
	x := newMover(t)
	f, err := x.module.Function("bump")
	x.mustSucceed(err)
	params := make([]byte, 8)
	for i := range params {
		params[i] = byte(uint64(x.at+16) >> (8 * i))
	}
	one := backend.Dim{X: 1, Y: 1, Z: 1}
	x.mustSucceed(x.stream.Launch(backend.Launch{Function: f, Grid: one, Block: one, Params: params}))
	x.mustSucceed(x.module.Unload())
	if err := x.move(x.to); backend.ResultOf(err) != backend.NotReady {
		t.Errorf("Move = %v, want NotReady", err)
	}
	x.mustSucceed(x.space.Map())
	x.leaveDevice()
	x.mustSucceed(x.move(x.to))
}

// TestMoveOwners: where owners share a place for the driver's reservations, a space with variables stays where it is, and
// a space without variables moves.
func TestMoveOwners(t *testing.T) {
	x := newMover(t)
	x.mustSucceed(x.space.Close())
	var all [2]backend.Space
	for i := range all {
		s, err := x.from.NewSpace(backend.SpaceConfig{Base: backend.Addr(60+10*i) << 40, Memory: 32 << 20, Owner: moverOwner + 1 + 768*uint64(i)})
		x.mustSucceed(err)
		x.cu, err = s.NewContext(0)
		x.mustSucceed(err)
		all[i] = s
	}
	x.loadModule()
	x.mustSucceed(all[0].(backend.Mover).Move(x.to))
	if err := all[1].(backend.Mover).Move(x.to); backend.ResultOf(err) != backend.NotSupported {
		t.Errorf("Move = %v, want NotSupported", err)
	}
}

// TestMoveCalls: no call of the driver's names the old device when a space has moved, but for its own context's.
func TestMoveCalls(t *testing.T) {
	x := newMover(t)
	x.mustSucceed(x.move(x.to))
	x.countCalls()
	_, err := x.cu.Alloc(3 << 20)
	x.mustSucceed(err)
	x.mustSucceed(x.space.Map())
	x.useSpace()
	_, err = x.space.NewContext(0)
	x.mustSucceed(err)
	x.leaveDevice()
	text, err := os.ReadFile(x.log)
	x.mustSucceed(err)
	for _, line := range regexp.MustCompile(`(?m)^.*(device 0|at 1 0,).*$`).FindAllString(string(text), -1) {
		t.Errorf("a call of the old device: %s", line)
	}
}
