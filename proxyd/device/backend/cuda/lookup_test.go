// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// askedKernels runs a part of a test, and returns the kernels that the driver was asked for meanwhile, in that order.
func askedKernels(t *testing.T, log string, do func()) (names []string) {
	t.Helper()
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	do()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text[len(before):])) {
		if _, rest, found := strings.Cut(line, "cuModuleGetFunction "); found {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}

// namesOf returns the names of a module's functions.
func namesOf(m backend.Module) (names []string) {
	for _, f := range m.Functions() {
		names = append(names, f.Name())
	}
	return names
}

// newContextOf returns a context on the first device of a backend.
func newContextOf(t *testing.T, b *Backend) backend.Context {
	t.Helper()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadKernels loads the kernels of the backends' suite.
func loadKernels(t *testing.T, c backend.Context) backend.Module {
	t.Helper()
	m, _, err := c.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLookups: a driver that loads each kernel when it is looked up is asked for all kernels when a module is loaded, and a
// driver that has loaded the kernels with the module for those that the program asks for, once. The list of functions is
// the same.
func TestLookups(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	log := filepath.Join(t.TempDir(), "calls")
	l.Reset(log, 1<<30)
	c := newContextOf(t, b)
	var early, late backend.Module
	asked := askedKernels(t, log, func() { early = loadKernels(t, c) })
	listed := namesOf(early)
	if len(listed) < 10 || !slices.Equal(asked, listed) {
		t.Errorf("at the load, a driver that loads kernels one by one was asked for %q, want all of %q", asked, listed)
	}
	l.LoadWhole()
	asked = askedKernels(t, log, func() { late = loadKernels(t, c) })
	if names := namesOf(late); len(asked) > 0 || !slices.Equal(names, listed) {
		t.Errorf("at the load, a driver that loads all kernels at once was asked for %q, want no kernel; listed are %q, want %q", asked, names, listed)
	}
	for _, tc := range []struct {
		name string
		m    backend.Module
		want []string
	}{{"one by one", early, nil}, {"all at once", late, []string{"add", "limited"}}} {
		asked := askedKernels(t, log, func() {
			for range 2 {
				f, err := tc.m.Function("add")
				if err != nil {
					t.Fatal(err)
				}
				if p := f.Params(); len(p) != 2 {
					t.Errorf("%s: parameters %v, want 2", tc.name, p)
				}
			}
			if _, err := tc.m.Function("absent"); backend.ResultOf(err) != backend.NotFound {
				t.Errorf("%s: a kernel that is not there: %v, want NotFound", tc.name, err)
			}
			// An element of the list is as good as a function that was asked for.
			f := tc.m.Functions()[slices.Index(listed, "limited")]
			if n, err := f.Attribute(backend.FuncMaxThreads); err != nil || n != 64 {
				t.Errorf("%s: the kernel limited may have %d threads, %v, want 64", tc.name, n, err)
			}
		})
		if !slices.Equal(asked, tc.want) {
			t.Errorf("%s: the program asked for add and limited, and the driver was asked for %q, want %q", tc.name, asked, tc.want)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLookupFails: a kernel that the driver refuses is refused by its name when the program asks for the kernel, each time,
// and the other kernels of its module are not.
func TestLookupFails(t *testing.T) {
	l := newFakeLibrary(t)
	l.LoadWhole()
	b := openBackend(t, l)
	m := loadKernels(t, newContextOf(t, b))
	for range 2 {
		l.Fail("cuModuleGetFunction", 1, int(backend.NotSupported))
		if _, err := m.Function("add"); backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), `"add"`) {
			t.Errorf("the kernel that is refused: %v, want NotSupported with its name", err)
		}
		if _, err := m.Function("bump"); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMovedLookups: kernels that the program has asked for before its space moved run on the other device, and a kernel
// that it asks for later is found there. A kernel that it has never asked for is not looked up.
func TestMovedLookups(t *testing.T) {
	x := newMover(t)
	x.library.LoadWhole()
	x.loadModule() // beside the module with kernels that were looked up at once
	x.mustSucceed(x.space.Map())
	x.useSpace()
	x.leaveDevice()
	asked := askedKernels(t, x.log, func() { x.mustSucceed(x.move(x.to)) })
	of := map[string]int{}
	for _, name := range asked {
		of[name]++
	}
	// Each is looked up for the rehearsal, and for the move.
	if of["add"] != 2 || of["bump"] != 4 {
		t.Errorf("while the space moves, the driver was asked for %v, want add of the first module, and bump of both", of)
	}
	x.checkWhere(x.to)
	asked = askedKernels(t, x.log, func() {
		_, err := x.module.Function("add")
		x.mustSucceed(err)
	})
	if want := []string{"add"}; !slices.Equal(asked, want) {
		t.Errorf("the driver was asked for %q, want %q", asked, want)
	}
	x.mustSucceed(x.b.Close())
}

// TestKernelsOfPieces: a kernel that only some of an image's code has is looked up when the image is loaded, for the driver
// may have chosen other code. So is a function that kernels call, which machine code does not tell from an old compiler's kernel.
func TestKernelsOfPieces(t *testing.T) {
	ptx := func(names ...string) facts {
		var f facts
		for _, name := range names {
			f.readPTX(".version 7.0\n.visible .entry " + name + "() { ret; }\n")
		}
		return f
	}
	var cubin facts
	if err := cubin.readCubin(makeCubin()); err != nil {
		t.Fatal(err)
	}
	old := facts{kernels: []kernelFacts{{name: "k"}}}
	unread := facts{unread: os.ErrInvalid}
	for _, tc := range []struct {
		name   string
		f      facts
		pieces []facts
		want   map[string]bool
	}{
		{"one piece", facts{}, []facts{ptx("a", "b")}, map[string]bool{"a": true, "b": true}},
		{"two pieces", facts{}, []facts{ptx("k", "b"), cubin}, map[string]bool{"k": true, "b": false}},
		{"machine code that does not say that it is a kernel", facts{}, []facts{ptx("k"), old}, map[string]bool{"k": false}},
		{"code that was not understood", unread, []facts{ptx("a")}, map[string]bool{"a": false}},
	} {
		f := tc.f
		f.addPieces(tc.pieces)
		got := map[string]bool{}
		for _, k := range f.kernels {
			got[k.name] = k.everywhere
		}
		if !maps.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	declared := facts{}
	declared.readPTX(".version 7.0\n.extern .entry elsewhere();\n")
	if len(declared.kernels) != 1 || declared.kernels[0].everywhere {
		t.Errorf("a kernel that is declared only: %+v, want a kernel that may be missing", declared.kernels)
	}
}
