// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestSharedSwap: memory that spaces share is the same for both, whichever of them the device has no room for.
func TestSharedSwap(t *testing.T) {
	d, all := makeTenants(t, 3)
	owner, importer, third := all[0], all[1], all[2]
	owner.takeTurn(t, func() { owner.fillMemory(t, 1) })
	third.takeTurn(t, func() { third.fillMemory(t, 9) }) // the owner leaves the device
	name, err := owner.cu.(backend.Sharer).Export(owner.at)
	if err != nil {
		t.Fatal(err)
	}
	at, err := importer.cu.(backend.Sharer).Import(owner.space, name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(v uint32) {
		if err := importer.cu.Legacy().Fill(backend.Fill{Addr: at, Value: v, Element: 1, Width: tenantSize}); err != nil {
			t.Fatal(err)
		}
	}
	for v := uint32(2); v < 8; v += 2 {
		importer.takeTurn(t, func() { write(v); importer.fillMemory(t, v) })
		third.takeTurn(t, func() { third.fillMemory(t, 9) })
		owner.takeTurn(t, func() { owner.wantAll(t, owner.at, byte(v)) })
		owner.takeTurn(t, func() { owner.fillMemory(t, v+1) })
		third.takeTurn(t, func() { third.fillMemory(t, 9) })
		importer.takeTurn(t, func() { importer.wantAll(t, at, byte(v+1)) })
	}
	if d.Swapped().Out == 0 {
		t.Error("no byte was swapped out")
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	third.takeTurn(t, func() { third.fillMemory(t, 9) })
	importer.takeTurn(t, func() { importer.wantAll(t, at, 7) })
	if n := len(d.backend.shared); n != 1 {
		t.Errorf("%d pieces of memory are shared", n)
	}
	if err := importer.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(d.backend.shared); n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
}

// wantAll checks that all bytes of an allocation have a value.
func (x *tenant) wantAll(t *testing.T, at backend.Addr, v byte) {
	t.Helper()
	parts, err := x.table.viewBytes(at, tenantSize)
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Join(parts, nil)
	if !bytes.Equal(got, bytes.Repeat([]byte{v}, tenantSize)) {
		t.Errorf("the first byte of the allocation is %d, want %d everywhere", got[0], v)
	}
}
