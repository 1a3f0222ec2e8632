// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// managedCode is PTX with variables that are declared managed.
const managedCode = `.version 8.0
.target sm_80
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 shared = 5;
.visible .global .attribute(.managed) .align 16 .b8 table[20] = { 1, 2, 3 };
.visible .entry where(.param .u64 to)
{ .reg .u64 %p, %q; ld.param.u64 %p, [to]; mov.u64 %q, shared; st.global.u64 [%p], %q; ret; }
.visible .entry bump()
{ .reg .u32 %v; ld.global.u32 %v, [shared]; add.u32 %v, %v, 1; st.global.u32 [shared], %v; ret; }
`

// TestManagedVariables: variables that are declared managed lie in memory of the program, from the load of their code on.
func TestManagedVariables(t *testing.T) {
	_, c := newCodeContext(t, 0)
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	const at, size = backend.Addr(5 << 32), 36 // from shared to the end of table
	if err := c.(*cudaContext).space.MapHost(at, mem); err != nil {
		t.Fatal(err)
	}
	load := func(v backend.ManagedVariables) (backend.Module, error) {
		m, _, err := c.Load([]byte(managedCode), backend.LoadConfig{Managed: v})
		return m, err
	}

	need := new(backend.ManagedError)
	if _, err := load(backend.ManagedVariables{Offered: true}); !errors.As(err, &need) || need.Size != size || backend.ResultOf(err) != backend.HostMemoryNotRegistered {
		t.Errorf("without an address: %v, want that %d bytes are needed", err, size)
	}
	for _, wrong := range []backend.Addr{at - 4096, at + 4096 - 16, backend.DefaultBase} {
		if _, err := load(backend.ManagedVariables{Offered: true, At: wrong}); backend.ResultOf(err) != backend.InvalidValue {
			t.Errorf("at %#x: %v, want an invalid value", uint64(wrong), err)
		}
	}
	if _, err := load(backend.ManagedVariables{Offered: true, At: at + 4}); backend.ResultOf(err) != backend.NotSupported {
		t.Errorf("at an address that is not aligned: %v", err)
	}

	m, err := load(backend.ManagedVariables{Offered: true, At: at})
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]byte{5, 0, 0, 0}, append(make([]byte, 12), 1, 2, 3, 0)...); !bytes.HasPrefix(mem, want) {
		t.Errorf("the program has % x, want % x", mem[:len(want)], want)
	}
	if g, err := m.Global("table"); err != nil || g != (backend.Global{Name: "table", Addr: at + 16, Size: 20, Managed: true}) {
		t.Errorf("%+v %v", g, err)
	}
	if v := m.Variables(); v.Size != 0 {
		t.Errorf("the device has %d bytes of variables", v.Size)
	}
	f, err := m.Function("bump")
	if err != nil {
		t.Fatal(err)
	}
	st, err := c.NewStream(backend.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	one := backend.Dim{X: 1, Y: 1, Z: 1}
	mem[0] = 41
	if err := errors.Join(st.Launch(backend.Launch{Function: f, Grid: one, Block: one}), st.Synchronize(t.Context())); err != nil {
		t.Fatal(err)
	}
	if mem[0] != 42 {
		t.Errorf("the program has %d, want 42", mem[0])
	}
	if _, err := load(backend.ManagedVariables{Offered: true, At: at, Kept: true}); err != nil || mem[0] != 42 {
		t.Errorf("variables that are kept: %v, with %d", err, mem[0])
	}

	// Of a program that cannot have such memory.
	m, err = load(backend.ManagedVariables{})
	if err != nil {
		t.Fatal(err)
	}
	if g, err := m.Global("shared"); err != nil || !g.Managed || !g.Absent {
		t.Errorf("%+v %v", g, err)
	}
	if _, err := m.Function("bump"); backend.ResultOf(err) != backend.NotSupported {
		t.Errorf("a kernel with a variable that the program does not reach: %v", err)
	}
}
