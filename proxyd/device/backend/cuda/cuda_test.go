// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"debug/elf"
	"flag"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

// fakes are the libraries of this test, by the calls that they lack.
var (
	fakeFolder string
	fakes      = map[string]*fakecuda.Library{}
	fakesMu    sync.Mutex
)

func TestMain(m *testing.M) {
	// Go's heap begins anywhere below 64 TiB, unless a program is built as proxyd-cuda is.
	const firstApart, lastApart = 60 << 40, 82 << 40 // where the tests of moves place spaces
	taken, err := Taken()
	apart, errApart := findMapping(firstApart, lastApart)
	if err != nil || errApart != nil || taken != "" || apart != "" {
		panic(unix.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	// A driver's library stays open until the process ends, so its file does too.
	folder, err := os.MkdirTemp("", "fakecuda-")
	if err != nil {
		panic(err)
	}
	fakeFolder = folder
	flag.Parse()
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// newFakeLibrary returns a library without some calls. The test fails if it leaves live objects in the
// library.
func newFakeLibrary(t *testing.T, without ...string) *fakecuda.Library {
	t.Helper()
	fakesMu.Lock()
	defer fakesMu.Unlock()
	key := ""
	for _, w := range without {
		key += w + " "
	}
	l := fakes[key]
	if l == nil {
		var err error
		if l, err = fakecuda.Build(fakeFolder, without...); err != nil {
			t.Fatal(err)
		}
		fakes[key] = l
	}
	l.Reset("", 1<<30)
	t.Cleanup(func() {
		if left := l.Live(); left != "" {
			t.Errorf("work that has not ended: %s", left)
		}
	})
	return l
}

// newFakeDriver returns a library that is like a driver of a version of CUDA: without calls of later versions, and without
// calls that the public header of that version has dropped. A real driver keeps dropped calls for older programs, but the
// backend must not need these.
func newFakeDriver(t *testing.T, version int) *fakecuda.Library {
	t.Helper()
	f, err := elf.Open(newFakeLibrary(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	var without []string
	for _, s := range symbols {
		c := table.Call(s.Name)
		if c != nil && c.Area.Lib == api.Driver && (c.Version > version || c.Gone != 0 && c.Gone <= version) {
			without = append(without, s.Name)
		}
	}
	slices.Sort(without)
	l := newFakeLibrary(t, without...)
	l.SetVersion(version)
	return l
}

func openBackend(t *testing.T, l *fakecuda.Library) *Backend {
	t.Helper()
	b, err := Open(Config{Library: l.Path, VariablesMayMove: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() }) // of a test that failed
	return b
}

var library = flag.String("library", "", "run the suite over this driver, as libcuda.so.1; with one device the cases that need two are skipped")

var first = flag.Bool("first", false, "run the first only of the cases that -test.run and -test.skip leave")

// TestDevice runs the suite on real devices: see tests/gpu.
func TestDevice(t *testing.T) {
	if *library == "" {
		t.Skip("-library names no driver")
	}
	open := func(t *testing.T) backend.Backend {
		b, err := Open(Config{Library: *library, VariablesMayMove: true, Spaces: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() }) // of a test that failed
		return b
	}
	except := maps.Clone(excused)
	except["a space closed under a kernel that never ends"] = "the driver ends a context when its kernels have ended; only the end of the process cuts one short"
	except["other contexts go on behind a fault"] = "a fault ends the process's use of the device"
	if *first {
		backendtest.RunFirst(t, open, except)
	} else {
		backendtest.Run(t, open, except)
	}
}

// excused are the cases that a real device cannot pass.
var excused = backendtest.ExcusedCases{
	"copies with another backend": "a process has the addresses for devices' memory once, so a second backend gets none",
	"print":                       "the driver prints to the server's own standard output, whichever program's kernel it was",
	"malloc in kernels":           "the driver's heap is its own, and nobody can read it",
	"restore graphs":              "the driver makes no node for memory that is not there",
}

func TestBackend(t *testing.T) { runSuite(t, 12040) }

// TestBackend13 is TestBackend over a driver of CUDA 13.0.
func TestBackend13(t *testing.T) { runSuite(t, 13000) }

// TestBackendWhole is TestBackend over a driver that loads the kernels of a module with the module.
func TestBackendWhole(t *testing.T) {
	l := newFakeDriver(t, 12040)
	l.LoadWhole()
	runSuiteOver(t, l)
}

func runSuite(t *testing.T, version int) { runSuiteOver(t, newFakeDriver(t, version)) }

func runSuiteOver(t *testing.T, l *fakecuda.Library) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		t.Cleanup(func() {
			if left := l.Live(); left != "" {
				t.Errorf("work that has not ended: %s", left)
			}
		})
		return openBackend(t, l)
	}, excused)
}

// TestTight runs the suite of spaces that do not fit together.
func TestTight(t *testing.T) {
	l := newFakeLibrary(t)
	backendtest.RunTight(t, func(t *testing.T) backend.Backend {
		l.Reset("", backendtest.TightMemory)
		return openBackend(t, l)
	}, nil)
}
