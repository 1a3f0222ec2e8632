// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// TestVariablesMoved: a restored module with variables elsewhere is refused by their names, unless that was allowed.
func TestVariablesMoved(t *testing.T) {
	l := newFakeLibrary(t)
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
	// The first module is still there, so the driver cannot put the variables of the second module there.
	_, again := space(s.State())
	_, _, err = again.Load([]byte(backendtest.Kernels), backend.LoadConfig{Globals: m.Variables().Base})
	if backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "variable counter") {
		t.Errorf("Load with the variables elsewhere: %v", err)
	}
	st := s.State()
	for i := range st.Variables {
		st.Variables[i].Name = "other"
	}
	_, other := space(st)
	_, _, err = other.Load([]byte(backendtest.Kernels), backend.LoadConfig{Globals: m.Variables().Base})
	if backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("loading another module: %v", err)
	}
}

// TestRestoreKernelHeap: memory that kernels have allocated cannot be brought back.
func TestRestoreKernelHeap(t *testing.T) {
	b := openBackend(t, newFakeLibrary(t))
	defer b.Close()
	_, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20, State: &backend.State{
		Base: backend.DefaultBase, Memory: 64 << 20, KernelHeap: &backend.KernelHeap{},
	}})
	if backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "malloc") {
		t.Errorf("NewSpace with a heap of kernels: %v", err)
	}
}

// TestSameAddresses: two devices cannot both have their memory at the same addresses of a single process.
func TestSameAddresses(t *testing.T) {
	b := openBackend(t, newFakeLibrary(t))
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
		t.Errorf("Map of a space at the same addresses: %v, want AlreadyMapped", err)
	}
}

// TestAbsentFeatures: a device has no feature with calls that are refused by name, though the driver says that it has them.
func TestAbsentFeatures(t *testing.T) {
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	refused := map[backend.Attribute]string{ // by the call that would use the feature
		backend.CooperativeMultiDevice: "cuLaunchCooperativeKernelMultiDevice", backend.SparseArrays: "cuArrayGetSparseProperties",
		backend.DeferredMapping: "cuMemMapArrayAsync", backend.TimelineSemaphores: "cuImportExternalSemaphore",
		backend.GPUDirectRDMA: "cuFlushGPUDirectRDMAWrites", backend.RDMAFlushOptions: "cuFlushGPUDirectRDMAWrites",
		backend.RDMAWritesOrdering: "cuFlushGPUDirectRDMAWrites", backend.DMABuf: "cuMemGetHandleForAddressRange",
		backend.HostDMABuf: "cuMemGetHandleForAddressRange", backend.HandleFabric: "cuMemExportToShareableHandle",
		backend.UnifiedFunctionPointers: "cuLibraryGetUnifiedFunction", backend.Multicast: "cuMulticastCreate",
		backend.D3D12Sharing: "cuStreamBeginCaptureToCig", backend.VulkanSharing: "cuStreamBeginCaptureToCig",
		backend.DecompressAlgorithms: "cuMemBatchDecompressAsync", backend.DecompressMaxLength: "cuMemBatchDecompressAsync",
		backend.HandlePosixFD: "cuMemExportToShareableHandle",
	}
	for a, call := range refused {
		if c := table.Call(call); c == nil || c.Kind != api.Refused {
			t.Errorf("attribute %d is hidden because %s is refused, but it is not", a, call)
		}
	}
	// The calls behind these attributes are not refused as a whole: memory and pools of the host are refused by their
	// location, and shared memory is refused by a backend that cannot share memory.
	others := []backend.Attribute{
		backend.GenericCompression, backend.HostNUMAVirtualMemory, backend.HostNUMAMemoryPools, backend.HostNUMAMultinodeIPC,
		backend.HostMemoryPools, backend.HostVirtualMemory, backend.PoolHandleTypes, backend.IPCEvents,
	}
	for _, version := range []int{12040, 13000} {
		b := openBackend(t, newFakeDriver(t, version))
		drv := b.drv
		for a := range maps.Keys(refused) {
			others = append(others, a)
		}
		told := 0
		for _, a := range others {
			if v, err := drv.Attribute(0, a); err == nil && v != 0 {
				told++
			}
			if v := b.Devices()[0].Info().Attributes[a]; v != 0 {
				t.Errorf("CUDA %d: attribute %d is %d, want 0", version, a, v)
			}
		}
		if told < 10 {
			t.Errorf("CUDA %d: the driver says that it has %d of the features, want most: nothing was tried", version, told)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
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
.global .attribute(.managed) .align 4 .u32 shared = 5;
.visible .global .attribute(.managed) .align 16 .b8 table[12] = {0, 0, 128, 63};
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
			{name: "_Z3addPfi", params: []backend.Param{{Offset: 0, Size: 8}, {Offset: 8, Size: 1}, {Offset: 16, Size: 24}, {Offset: 40, Size: 4}}, required: backend.Dim{X: 32, Y: 2, Z: 1}, everywhere: true},
			{name: "none", everywhere: true},
		},
		variables: []variableFacts{{name: "counter"}, {name: "$str"}, {name: "pi", constant: true}},
		managed:   []string{"shared", "table"},
	}
	if !reflect.DeepEqual(*f, want) {
		t.Errorf("facts of the PTX = %+v\nwant %+v", *f, want)
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
		t.Errorf("facts of the notes = %+v, want %+v", k, want)
	}
	for i := range notes {
		(&kernelFacts{}).readNotes(notes[:i]) // any bytes of a program must not panic
	}
}

// makeCubin returns machine code with a kernel, a variable, and a variable that is declared managed, as compilers since CUDA 12 write it: their
// version is in e_version.
func makeCubin() []byte {
	names := []byte("\x00.symtab\x00.strtab\x00.nv.info.k\x00.nv.global\x00.text.k\x00k\x00v\x00w\x00")
	at := func(name string) uint32 { return uint32(bytes.Index(names, []byte("\x00"+name+"\x00")) + 1) }
	le := binary.LittleEndian
	var notes []byte
	notes = append(notes, 4, 0x17, 12, 0)
	for _, v := range []uint32{0, 8 << 16, 4 << 18} { // index 0, offset 8, 4 bytes
		notes = le.AppendUint32(notes, v)
	}
	const machine, objects = 190, 64
	symbols := make([]elf.Sym64, 4)
	symbols[1] = elf.Sym64{Name: at("k"), Info: byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC), Other: kernelSymbol, Shndx: 5}
	symbols[2] = elf.Sym64{Name: at("v"), Info: byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_OBJECT), Shndx: 4, Size: 4}
	symbols[3] = elf.Sym64{Name: at("w"), Info: byte(elf.STT_OBJECT), Other: 4, Shndx: 4, Size: 4}
	table, _ := binary.Append(nil, le, symbols)
	parts := [][]byte{nil, table, names, notes, make([]byte, 4), make([]byte, 16)}
	sections := []elf.Section64{
		{},
		{Name: at(".symtab"), Type: uint32(elf.SHT_SYMTAB), Link: 2, Info: 1, Entsize: 24},
		{Name: at(".strtab"), Type: uint32(elf.SHT_STRTAB)},
		{Name: at(".nv.info.k"), Type: 0x70000000},
		{Name: at(".nv.global"), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_WRITE)},
		{Name: at(".text.k"), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR)},
	}
	head := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33, 7}, Type: uint16(elf.ET_EXEC), Machine: machine, Version: 123,
		Flags: 0x5a055a, Ehsize: 64, Phentsize: 56, Shentsize: objects, Shnum: uint16(len(sections)), Shstrndx: 2,
	}
	body := []byte{}
	for i := range sections {
		sections[i].Off, sections[i].Size = uint64(64+len(body)), uint64(len(parts[i]))
		body = append(body, parts[i]...)
	}
	head.Shoff = uint64(64 + len(body))
	out, _ := binary.Append(nil, le, head)
	out, _ = binary.Append(append(out, body...), le, sections)
	return out
}

// TestNewerCubin: code is read although the version of its compiler is newer.
func TestNewerCubin(t *testing.T) {
	f := &facts{}
	f.readImage(makeCubin())
	want := facts{
		kernels:   []kernelFacts{{name: "k", params: []backend.Param{{Offset: 8, Size: 4}}, everywhere: true}},
		variables: []variableFacts{{name: "v"}},
		managed:   []string{"w"},
	}
	if !reflect.DeepEqual(*f, want) {
		t.Errorf("facts of the cubin = %+v\nwant %+v", *f, want)
	}
}

// TestNotUnderstood: code that the driver takes and that is not understood may have variables, so the memory cannot be
// saved. Both the program that loads the code and the save get the reason.
func TestNotUnderstood(t *testing.T) {
	broken := makeCubin()
	broken[len(broken)-5*64+40] = 99 // where the names of the symbols are
	packed := backendtest.Fatbin(backendtest.Kernels, 80)
	binary.LittleEndian.PutUint64(packed[16+40:], 0x11|1<<13) // says to be packed by LZ4, and is not
	strange := backendtest.Fatbin(backendtest.Kernels, 80)
	strange[16] = 64 // kind
	for _, tc := range []struct {
		name string
		code []byte
		want string // in the reason; "" if all is understood
	}{
		{"right", backendtest.Fatbin(backendtest.Kernels, 80), ""},
		{"symbols without names", broken, "string table"},
		{"not unpacked", packed, "no .version"},
		{"neither PTX nor machine code", strange, "kind 64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := openBackend(t, newFakeLibrary(t))
			defer b.Close()
			s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			c, err := s.NewContext(0)
			if err != nil {
				t.Fatal(err)
			}
			_, log, err := c.Load(tc.code, backend.LoadConfig{})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Blocks(&[32]byte{}, func(backend.BlockID, backend.Hash) bool { return true })
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "not understood") || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("Blocks of a space with such code: %v", err)
			case tc.want != "" && !strings.Contains(log.Info, "not understood"):
				t.Errorf("the log of Load = %q, want the reason", log.Info)
			}
			_ = s.Close()
		})
	}
}
