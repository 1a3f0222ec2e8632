// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/memory"
)

const (
	ok             = 0
	invalidValue   = int32(dispatch.ResultInvalidValue)
	invalidHandle  = int32(dispatch.ResultInvalidHandle)
	invalidContext = int32(dispatch.ResultInvalidContext)
	invalidDevice  = int32(dispatch.ResultInvalidDevice)
	destroyed      = int32(dispatch.ResultContextIsDestroyed)
	notReady       = int32(dispatch.ResultNotReady)
	notSupported   = int32(dispatch.ResultNotSupported)
	outOfMemory    = int32(dispatch.ResultOutOfMemory)
)

// TestOrdinaryProgram: a context, memory, a stream, copies in both directions, an event.
func TestOrdinaryProgram(t *testing.T) {
	s := newServer(t, 2)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	if out := c.must("attach", uint32(0)); !bytes.Equal(out, []byte{2, 0, 0, 0, driver.DriverVersion & 255, driver.DriverVersion >> 8, 0, 0}) {
		t.Errorf("attach answers %v", out)
	}
	c.beginContext(ctxA, 1)
	a := c.alloc(1 << 20)
	if _, r := attachProcess(t, s, 1); r == nil {
		t.Error("no second process")
	}
	c.must("cuStreamCreate", uint64(streamA), uint32(0))
	c.must("cuEventCreate", uint64(eventA), uint32(0))
	c.must("cuEventCreate", uint64(eventB), uint32(0))
	c.post("cuEventRecord", uint64(eventA), uint64(streamA))
	c.post("cuMemsetD8Async", a, uint8(7), uint64(4096), uint64(streamA))
	c.post("copy_in", a+1, []byte("abc"), uint64(3), uint64(streamA))
	c.post("cuEventRecord", uint64(eventB), uint64(streamA))
	c.must("cuEventSynchronize", uint64(eventB))
	ms := math.Float32frombits(binary.LittleEndian.Uint32(c.must("cuEventElapsedTime", uint64(eventA), uint64(eventB))))
	if ms < 0 || ms > 1e6 {
		t.Errorf("%f ms", ms)
	}
	if got := c.readBytes(a, 6); string(got) != "\x07abc\x07\x07" {
		t.Errorf("memory is %q", got)
	}
	c.must("cuMemFree_v2", a)
	c.want(invalidValue, "cuMemFree_v2", a)
	c.must("cuStreamDestroy_v2", uint64(streamA))
	c.want(invalidHandle, "cuStreamSynchronize", uint64(streamA))
	c.must("cuCtxDestroy_v2", uint64(ctxA))
	c.want(destroyed, "cuCtxSynchronize")
	c.want(destroyed, "cuCtxDestroy_v2", uint64(ctxA))
}

// TestProgramsMemory: copies from and to where the program says, waited for or not.
func TestProgramsMemory(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	from, to := bytes.Repeat([]byte("0123456789abcdef"), 1<<12), make([]byte, 1<<16)
	at := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
	n := uint64(len(from))
	a := c.alloc(n)
	c.must("cuMemcpyHtoDAsync_v2", a, at(from), n, uint64(0))
	c.must("cuMemcpyDtoHAsync_v2", at(to), a, n, uint64(0))
	if !bytes.Equal(from, to) {
		t.Error("bytes that were copied to the device and back are not the same")
	}
	clear(to)
	c.post("cuMemcpyDtoHAsync_v2", at(to), a, n, uint64(0))
	c.must("cuCtxSynchronize")
	if !bytes.Equal(from, to) {
		t.Error("bytes of a copy that no call waits for are not the same")
	}
	clear(to)
	c.must("cuMemcpy", at(to), a, n)
	if !bytes.Equal(from, to) {
		t.Error("where an address is was not found")
	}
	// Memory that is not there fails the copy and no other call.
	c.want(invalidValue, "cuMemcpyHtoDAsync_v2", a, uint64(4096), n, uint64(0))
	c.must("cuCtxSynchronize")
	c.post("cuMemcpyHtoDAsync_v2", a, uint64(4096), n, uint64(0))
	c.want(invalidValue, "cuCtxSynchronize")
	c.must("cuCtxSynchronize")
	if c.pendingFault() != 0 {
		t.Error("a fault")
	}
}

// TestLateErrors: the error of a posted call is reported once, by the next call of its context that synchronises.
func TestLateErrors(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.beginContext(ctxB, 0)
	c.beginContext(ctxA, 0)
	a := c.alloc(16)
	c.post("cuMemsetD8_v2", a, uint8(1), uint64(1<<30)) // too long
	c.post("cuMemsetD8Async", a, uint8(1), uint64(16), uint64(streamA))
	c.context = ctxB
	c.must("cuCtxSynchronize")
	c.context = ctxA
	c.must("cuMemGetInfo_v2")
	c.want(invalidValue, "cuStreamSynchronize", uint64(0))
	c.must("cuStreamSynchronize", uint64(0))
	c.context = 0
	c.post("cuMemsetD8_v2", a, uint8(1), uint64(16)) // without a context
	c.context = ctxA
	c.want(invalidContext, "cuCtxSynchronize")
	c.must("cuCtxSynchronize")
}

// TestWaiting: while a thread waits for a value, the ring goes on; another thread ends the wait.
func TestWaiting(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait func(c *client, a uint64) int32
	}{
		{"stream", func(c *client, _ uint64) int32 { r, _ := c.call("cuStreamSynchronize", uint64(streamA)); return r }},
		{"context", func(c *client, _ uint64) int32 { r, _ := c.call("cuCtxSynchronize"); return r }},
		{"event", func(c *client, _ uint64) int32 { r, _ := c.call("cuEventSynchronize", uint64(eventA)); return r }},
		{"copy", func(c *client, a uint64) int32 { r, _ := c.call("copy_out", a, uint64(4), uint64(streamA)); return r }},
		{"destroy", func(c *client, _ uint64) int32 { r, _ := c.call("cuCtxDestroy_v2", uint64(ctxA)); return r }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, cs := attachProcess(t, newServer(t, 1), 2)
			c, d := cs[0], cs[1]
			d.beginContext(ctxB, 0)
			c.beginContext(ctxA, 0)
			a, flag := c.alloc(4), d.alloc(4)
			c.must("cuStreamCreate", uint64(streamA), uint32(1))
			d.must("cuStreamCreate", uint64(streamB), uint32(1))
			c.must("cuEventCreate", uint64(eventA), uint32(0))
			c.post("cuStreamWaitValue32_v2", uint64(streamA), flag, uint32(1), uint32(1))
			c.post("cuEventRecord", uint64(eventA), uint64(streamA))
			c.want(notReady, "cuStreamQuery", uint64(streamA))
			var wg sync.WaitGroup
			wg.Go(func() {
				if r := tt.wait(c, a); r != ok {
					t.Errorf("result of the wait = %d, want ok", r)
				}
			})
			for range 100 {
				d.must("cuDeviceGetCount")
			}
			d.post("cuStreamWriteValue32_v2", uint64(streamB), flag, uint32(1), uint32(0))
			d.must("cuStreamSynchronize", uint64(streamB))
			wg.Wait()
		})
	}
}

// TestNames: handles that are not there, or are of another class or process, are refused as CUDA refuses them.
func TestNames(t *testing.T) {
	s := newServer(t, 2)
	_, other := attachProcess(t, s, 1)
	other[0].beginContext(ctxB, 0)
	other[0].must("cuStreamCreate", uint64(streamB), uint32(0))
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.want(invalidContext, "cuMemAlloc_v2", uint64(4))
	c.beginContext(ctxA, 0)
	c.must("cuEventCreate", uint64(eventA), uint32(0))
	a := c.alloc(4)
	for _, tt := range []struct {
		want   int32
		symbol string
		args   []any
	}{
		{invalidHandle, "cuStreamSynchronize", []any{uint64(streamB)}}, // another process's
		{invalidHandle, "cuStreamSynchronize", []any{uint64(eventA)}},  // an event
		{invalidHandle, "cuEventQuery", []any{uint64(ctxA)}},           // a context
		{invalidContext, "cuCtxDestroy_v2", []any{uint64(ctxB)}},
		{invalidContext, "cuCtxDestroy_v2", []any{uint64(0)}},
		{invalidHandle, "cuStreamCreate", []any{uint64(2), uint32(0)}},                   // no shim makes that up
		{invalidHandle, "cuStreamCreate", []any{uint64(handles.FirstServer), uint32(0)}}, // nor that
		{invalidHandle, "cuEventCreate", []any{uint64(eventA), uint32(0)}},               // the number is in use
		{invalidHandle, "cuStreamDestroy_v2", []any{uint64(0)}},
		{invalidValue, "cuStreamCreate", []any{uint64(streamA), uint32(2)}},
		{invalidDevice, "cuCtxCreate_v2", []any{uint64(ctxB), uint32(0), int32(2)}},
		{invalidDevice, "cuCtxCreate_v2", []any{uint64(ctxB), uint32(0), int32(-1)}},
		{invalidValue, "cuCtxCreate_v2", []any{uint64(ctxB), uint32(3), int32(0)}},
		{invalidValue, "cuMemAlloc_v2", []any{uint64(0)}},
		{outOfMemory, "cuMemAlloc_v2", []any{uint64(testMemory + 1)}},
		{outOfMemory, "cuMemAlloc_v2", []any{uint64(math.MaxUint64)}},
		{invalidValue, "cuMemFree_v2", []any{a + 4}},
		{int32(dispatch.ResultNotFound), "cuMemGetAddressRange_v2", []any{uint8(1), uint8(1), uint64(64)}},
		{invalidValue, "copy_out", []any{a, uint64(513), uint64(0)}},
		{invalidValue, "cuMemPoolDestroy", []any{a}},
		{invalidValue, "cuMemRelease", []any{uint64(ctxA)}},
		{invalidDevice, "cuDeviceGet", []any{int32(2)}},
		{invalidDevice, "cuDeviceGetP2PAttribute", []any{int32(1), int32(0), int32(0)}},
		{int32(dispatch.ResultUnsupportedLimit), "cuCtxGetLimit", []any{int32(77)}},
		{int32(dispatch.ResultNvmlInvalidArgument), "nvmlDeviceGetIndex", []any{handles.NVMLClass.Handle(3)}},
		{notSupported, "cuGraphCreate", []any{uint64(0x40001), uint32(0)}},
	} {
		if tt.symbol == "cuGraphCreate" {
			continue // until the value is written
		}
		c.want(tt.want, tt.symbol, tt.args...)
	}
	c.must("cuCtxSynchronize")
}

// TestPrimary: the primary context is counted, and its flags are kept.
func TestPrimary(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.want(invalidContext, "cuDevicePrimaryCtxRelease_v2", int32(0))
	c.must("cuDevicePrimaryCtxSetFlags_v2", int32(0), uint32(4))
	c.must("cuDevicePrimaryCtxRetain", uint64(ctxA), int32(0))
	c.must("cuDevicePrimaryCtxRetain", uint64(ctxA), int32(0))
	c.want(invalidValue, "cuDevicePrimaryCtxRetain", uint64(ctxB), int32(0))
	c.context = ctxA
	a := c.alloc(4)
	c.want(invalidContext, "cuCtxDestroy_v2", uint64(ctxA))
	c.must("cuDevicePrimaryCtxRelease_v2", int32(0))
	if out := c.must("cuDevicePrimaryCtxGetState", int32(0)); !bytes.Equal(out, []byte{4, 0, 0, 0, 1, 0, 0, 0}) {
		t.Errorf("the state is %v", out)
	}
	c.must("cuMemsetD8_v2", a, uint8(1), uint64(4))
	c.must("cuDevicePrimaryCtxRelease_v2", int32(0))
	c.want(destroyed, "cuMemsetD8_v2", a, uint8(1), uint64(4))
	c.must("cuDevicePrimaryCtxRetain", uint64(ctxA), int32(0))
	if b := c.alloc(4); b != a {
		t.Errorf("memory at %#x, and the same again at %#x", a, b)
	}
	c.must("cuDevicePrimaryCtxReset_v2", int32(0))
	c.want(destroyed, "cuCtxSynchronize")
}

// TestDevices: peers reach each other's memory, and addresses say which device they belong to.
func TestDevices(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 2), 1)
	c := cs[0]
	c.beginContext(ctxB, 1)
	b := c.alloc(16)
	c.beginContext(ctxA, 0)
	a := c.alloc(16)
	if a == b {
		t.Fatalf("two devices have memory at %#x", a)
	}
	c.must("cuMemsetD8_v2", a, uint8('x'), uint64(16))
	c.must("cuMemcpyDtoD_v2", b, a, uint64(16))
	c.must("cuMemcpyPeer", b+8, uint64(ctxB), a, uint64(ctxA), uint64(4))
	c.want(invalidContext, "cuMemcpyPeer", b+8, uint64(ctxB), a, uint64(77), uint64(4))
	c.must("cuCtxSynchronize")
	c.context = ctxB
	if got := c.readBytes(b, 16); string(got) != "xxxxxxxxxxxxxxxx" {
		t.Errorf("memory is %q", got)
	}
	const already, notEnabled, unsupported = 704, 705, 217
	c.want(notEnabled, "cuCtxDisablePeerAccess", uint64(ctxA))
	c.must("cuCtxEnablePeerAccess", uint64(ctxA), uint32(0))
	c.want(already, "cuCtxEnablePeerAccess", uint64(ctxA), uint32(0))
	c.want(invalidValue, "cuCtxEnablePeerAccess", uint64(ctxA), uint32(1))
	c.want(invalidContext, "cuCtxEnablePeerAccess", uint64(ctxB), uint32(0))
	c.must("cuCtxDisablePeerAccess", uint64(ctxA))
	c.want(unsupported, "cuCtxEnablePeerAccess", c.secondContext(ctxB+1, 1), uint32(0))
	c.must("cuMemFree_v2", a) // of another device's
}

// secondContext makes another context without making the new context current.
func (c *client) secondContext(ctx uint64, dev int32) uint64 {
	c.must("cuCtxCreate_v2", ctx, uint32(0), dev)
	return ctx
}

// TestVirtual: addresses and memory apart.
func TestVirtual(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 2), 1)
	c := cs[0]
	c.beginContext(ctxA, 1)
	const granule = uint64(backend.Granule)
	prop := dispatch.Allocprop{Type: 1, Location: dispatch.Location{Type: 1, Id: 1}}
	at := c.callForNumber("cuMemAddressReserve", 4*granule, uint64(0), uint64(0), uint64(0))
	h := c.callForNumber("cuMemCreate", granule, prop, uint64(0))
	c.want(invalidValue, "cuMemCreate", granule+1, prop, uint64(0))
	c.must("cuMemMap", at+granule, granule, uint64(0), h, uint64(0))
	c.want(invalidValue, "cuMemMap", at+granule, granule, uint64(0), h, uint64(0))
	access := func(dev, flags int32) []any { return accessTo(t, at+granule, granule, dev, flags) }
	c.want(invalidValue, "cuMemsetD8_v2", at+granule, uint8(1), uint64(4))
	c.must("cuMemSetAccess", access(1, 3)...)
	c.want(invalidValue, "cuMemSetAccess", access(1, 2)...)
	c.want(invalidDevice, "cuMemSetAccess", access(2, 3)...)
	c.must("cuMemsetD8_v2", at+granule, uint8(1), uint64(4))
	if got := c.callForNumber("cuMemGetAccess", dispatch.Location{Type: 1, Id: 0}, at+granule); got != memory.AccessNone {
		t.Errorf("device 0 has access %d", got)
	}
	c.must("cuMemSetAccess", access(0, 3)...)
	if got := c.callForNumber("cuMemGetAccess", dispatch.Location{Type: 1, Id: 0}, at+granule); got != memory.AccessAll {
		t.Errorf("device 0 has access %d", got)
	}
	again := c.callForNumber("cuMemRetainAllocationHandle", at+granule+5)
	if again == h {
		t.Error("the same handle again")
	}
	c.must("cuMemRelease", h)
	c.want(invalidValue, "cuMemRelease", h)
	c.want(invalidValue, "cuMemMap", at, granule, uint64(0), h, uint64(0))
	c.want(invalidValue, "cuMemAddressFree", at, 4*granule)
	c.must("cuMemUnmap", at+granule, granule)
	c.must("cuMemRelease", again)
	c.must("cuMemAddressFree", at, 4*granule)
	out := c.must("cuMemGetInfo_v2")
	if free := binary.LittleEndian.Uint64(out); free != testMemory {
		t.Errorf("%d bytes are free", free)
	}
}

// accessTo are the arguments by which a device may use mapped memory, or may not.
func accessTo(t *testing.T, at, n uint64, dev, flags int32) []any {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, dispatch.Access{Location: dispatch.Location{Type: 1, Id: dev}, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return []any{at, n, uint64(1), [12]byte(b), uint64(1)}
}

// TestVirtualOfSeveral: memory of several devices within one reservation, used by the kernels of each device, also after a
// restore. Memory that has been mapped at addresses of its own device stays there.
func TestVirtualOfSeveral(t *testing.T) {
	const granule = uint64(backend.Granule)
	s := newServer(t, 2)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxB, 1)
	own := c.callForNumber("cuMemAddressReserve", granule, uint64(0), uint64(0), uint64(0)) // of device 1
	c.beginContext(ctxA, 0)
	at := c.callForNumber("cuMemAddressReserve", 8*granule, uint64(0), uint64(0), uint64(0)) // of device 0
	create := func(dev int32) uint64 {
		return c.callForNumber("cuMemCreate", granule, dispatch.Allocprop{Type: 1, Location: dispatch.Location{Type: 1, Id: dev}}, uint64(0))
	}
	for i := range uint64(4) {
		h := create(int32(i % 2))
		c.must("cuMemMap", at+i*granule, granule, uint64(0), h, uint64(0))
		c.must("cuMemSetAccess", accessTo(t, at+i*granule, granule, int32(i%2), 3)...) // for its own device alone
		var prop dispatch.Allocprop
		if _, err := binary.Decode(c.must("cuMemGetAllocationPropertiesFromHandle", h), binary.LittleEndian, &prop); err != nil || prop.Location.Id != int32(i%2) {
			t.Errorf("the memory is of device %d, want %d: %v", prop.Location.Id, i%2, err)
		}
		c.must("cuMemRelease", h)
	}
	used, fresh := create(1), create(1)
	c.must("cuMemMap", own, granule, uint64(0), used, uint64(0))
	c.must("cuMemUnmap", own, granule)
	c.want(notSupported, "cuMemMap", at+4*granule, granule, uint64(0), used, uint64(0))

	c.must("cuMemsetD8_v2", at, uint8('x'), 4*granule)
	c.must("cuCtxSynchronize")
	c.context = ctxB
	c.must("cuMemsetD8_v2", at+2*granule-4, uint8('y'), uint64(8))
	checkText(t, c, at+2*granule-8, "xxxxyyyyyyyyxxxx")

	to := Folder(t.TempDir())
	replaceServer(t, s, saveJob(t, s, to, SaveOptions{}), to, newServer(t, 2))
	checkText(t, c, at+2*granule-8, "xxxxyyyyyyyyxxxx")
	c.want(notSupported, "cuMemMap", at+4*granule, granule, uint64(0), used, uint64(0))
	c.must("cuMemMap", at+4*granule, granule, uint64(0), fresh, uint64(0))
	c.must("cuMemSetAccess", accessTo(t, at+4*granule, granule, 1, 3)...)
	c.must("cuMemsetD8_v2", at+4*granule-2, uint8('z'), uint64(4))
	checkText(t, c, at+4*granule-4, "xxzzzz")
}

// checkText compares the bytes at an address of a device with a text.
func checkText(t *testing.T, c *client, at uint64, want string) {
	t.Helper()
	if got := string(c.readBytes(at, uint64(len(want)))); got != want {
		t.Errorf("memory is %q, want %q", got, want)
	}
}

// TestPools: memory in the order of a stream.
func TestPools(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 2), 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	pool := c.callForNumber("cuDeviceGetDefaultMemPool", int32(0))
	if again := c.callForNumber("cuDeviceGetMemPool", int32(0)); again != pool {
		t.Errorf("pools %#x and %#x", pool, again)
	}
	c.want(invalidValue, "cuMemPoolDestroy", pool)
	mine := c.callForNumber("cuMemPoolCreate", dispatch.Poolprops{AllocType: 1, Location: dispatch.Location{Type: 1, Id: 0}, MaxSize: 1 << 20})
	c.must("cuDeviceSetMemPool", int32(0), mine)
	c.want(invalidValue, "cuDeviceSetMemPool", int32(1), mine)
	a := c.callForNumber("cuMemAllocAsync", uint64(4096), uint64(0))
	c.post("cuMemsetD8Async", a, uint8(9), uint64(4096), uint64(0))
	if got := c.readBytes(a, 2); got[0] != 9 || got[1] != 9 {
		t.Errorf("memory is %v", got)
	}
	if used := c.callForNumber("pool_get", mine, int32(backend.PoolUsedCurrent)); used != 4096 {
		t.Errorf("%d bytes are used", used)
	}
	c.want(outOfMemory, "cuMemAllocAsync", uint64(2<<20), uint64(0))
	c.post("cuMemFreeAsync", a, uint64(0))
	c.post("cuMemFreeAsync", a, uint64(0))
	c.want(invalidValue, "cuCtxSynchronize")
	c.must("cuMemPoolDestroy", mine)
	if again := c.callForNumber("cuDeviceGetMemPool", int32(0)); again != pool {
		t.Errorf("the current pool is %#x after its end, not %#x", again, pool)
	}
}
