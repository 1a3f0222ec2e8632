// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// TestVariablesMoved: a restored module whose variables are elsewhere is refused by their names, unless that was allowed.
func TestVariablesMoved(t *testing.T) {
	l := fake(t)
	b, err := Open(Config{Library: l.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	space := func(st *backend.State) (backend.Space, backend.Context) {
		s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20, State: st})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.NewContext(1)
		if err != nil {
			t.Fatal(err)
		}
		return s, c
	}
	s, c := space(nil)
	m, _, err := c.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// The first module is still there, so the driver cannot put the second one's variables where they were.
	_, again := space(s.State())
	_, _, err = again.Load([]byte(backendtest.Kernels), backend.LoadConfig{Globals: m.Variables().Base})
	if backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "variable counter") {
		t.Errorf("%v", err)
	}
	st := s.State()
	for i := range st.Variables {
		st.Variables[i].Name = "other"
	}
	_, other := space(st)
	_, _, err = other.Load([]byte(backendtest.Kernels), backend.LoadConfig{Globals: m.Variables().Base})
	if backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("another module: %v", err)
	}
}

// TestRestoreKernelHeap: memory that kernels have allocated cannot be brought back.
func TestRestoreKernelHeap(t *testing.T) {
	b := open(t, fake(t))
	defer b.Close()
	_, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20, State: &backend.State{
		Base: backend.DefaultBase, Memory: 64 << 20, KernelHeap: &backend.KernelHeap{},
	}})
	if backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "malloc") {
		t.Errorf("%v", err)
	}
}

// TestSameAddresses: two devices cannot both have their memory at the same addresses of one process.
func TestSameAddresses(t *testing.T) {
	b := open(t, fake(t))
	defer b.Close()
	var spaces []backend.Space
	for _, d := range b.Devices() {
		s, err := d.NewSpace(backend.SpaceConfig{Memory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		spaces = append(spaces, s)
	}
	if err := spaces[0].Map(); err != nil {
		t.Fatal(err)
	}
	if err := spaces[1].Map(); backend.ResultOf(err) != backend.AlreadyMapped {
		t.Errorf("%v", err)
	}
}

func TestFactsOfPTX(t *testing.T) {
	f := &facts{}
	f.readPTX(`
.version 8.4 // .entry not_me(
.target sm_80
.address_size 64
/* .global .u32 nor_me; */
.visible .global .align 4 .u32 counter = 7;
.global .align 16 .b8 $str[6] = {104, 105, 10, 59, 125, 0};
.extern .global .align 4 .u32 elsewhere;
.const .align 8 .f64 pi = 0d400921FB54442D18;
.visible .func (.param .b32 r) helper(.param .b32 x) { .global .u32 inner; ret; }
.visible .entry _Z3addPfi(
	.param .u64 .ptr .global .align 4 _Z3addPfi_param_0,
	.param .u8 _Z3addPfi_param_1,
	.param .align 8 .b8 _Z3addPfi_param_2[24],
	.param .f32 _Z3addPfi_param_3
)
.reqntid 32, 2
.minnctapersm 1
{ .param .b64 p; ret; }
.entry none() { ret; }
`)
	want := facts{
		kernels: []kernelFacts{
			{name: "_Z3addPfi", params: []backend.Param{{Offset: 0, Size: 8}, {Offset: 8, Size: 1}, {Offset: 16, Size: 24}, {Offset: 40, Size: 4}}, required: backend.Dim{X: 32, Y: 2, Z: 1}},
			{name: "none"},
		},
		variables: []variableFacts{{name: "counter"}, {name: "$str"}, {name: "pi", constant: true}},
	}
	if !reflect.DeepEqual(*f, want) {
		t.Errorf("%+v\nwant %+v", *f, want)
	}
}

func TestFactsOfCubin(t *testing.T) {
	le := binary.LittleEndian
	var notes []byte
	note := func(form, attr byte, value ...uint32) {
		notes = append(notes, form, attr)
		notes = le.AppendUint16(notes, uint16(4*len(value)))
		for _, v := range value {
			notes = le.AppendUint32(notes, v)
		}
	}
	notes = append(notes, 3, 0x19, 12, 0) // the size of all parameters, which is in the note itself
	note(4, 0x17, 0, 1|8<<16, 4<<18)
	note(4, 0x17, 0, 0, 8<<18|0x1f)
	note(4, 0x10, 64, 1, 1)
	k := kernelFacts{}
	k.readNotes(notes)
	want := kernelFacts{params: []backend.Param{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}}, required: backend.Dim{X: 64, Y: 1, Z: 1}}
	if !reflect.DeepEqual(k, want) {
		t.Errorf("%+v, want %+v", k, want)
	}
	for i := range notes {
		(&kernelFacts{}).readNotes(notes[:i]) // whatever a program gives us
	}
}
