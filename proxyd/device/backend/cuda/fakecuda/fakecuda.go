// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

// Package fakecuda is a libcuda.so.1 for tests, in C, which the backend opens like the real library. testdata/fake.h
// lists its abilities. The tests of a process share it.
package fakecuda

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdint.h>
// #include <stdlib.h>
//
// static void reset(void *f, const char *log, size_t memory) { ((void (*)(const char *, size_t))f)(log, memory); }
// static void fail(void *f, const char *call, int n, int r) { ((void (*)(const char *, int, int))f)(call, n, r); }
// static void fail_on(void *f) { ((void (*)(void))f)(); }
// static void keep(void *f) { ((void (*)(void))f)(); }
// static void halt(void *f, const char *call, int n) { ((void (*)(const char *, int))f)(call, n); }
// static void resume(void *f) { ((void (*)(void))f)(); }
// static void *reserve(void *f, size_t n) { return ((void *(*)(size_t))f)(n); }
// static uintptr_t place(void *f) { return ((uintptr_t (*)(void))f)(); }
// static void set_version(void *f, int v) { ((void (*)(int))f)(v); }
// static int number(void *f, int kind) { return ((int (*)(int))f)(kind); }
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// Library is a fake that was built.
type Library struct {
	Path    string
	library unsafe.Pointer
}

// Build builds the library into a folder, without some calls.
func Build(folder string, without ...string) (*Library, error) {
	backend, err := backendFolder()
	if err != nil {
		return nil, err
	}
	object := filepath.Join(folder, "fakecuda.o")
	if _, err := os.Stat(object); err != nil {
		if err := compileObject(backend, object); err != nil {
			return nil, err
		}
	}
	l := &Library{Path: filepath.Join(folder, "libcuda-"+strings.Join(without, "-")+".so")}
	if len(without) > 0 {
		var args []string
		for _, call := range without {
			args = append(args, "--redefine-sym", call+"=absent_"+call)
		}
		renamed := strings.TrimSuffix(l.Path, ".so") + ".o"
		if err := runTool("objcopy", append(args, object, renamed)...); err != nil {
			return nil, err
		}
		object = renamed
	}
	if err := runTool("cc", "-shared", "-o", l.Path, object, "-lpthread"); err != nil {
		return nil, err
	}
	name := C.CString(l.Path)
	defer C.free(unsafe.Pointer(name))
	if l.library = C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL); l.library == nil {
		return nil, fmt.Errorf("%s", C.GoString(C.dlerror()))
	}
	return l, nil
}

// compileObject compiles the whole library into one object file: a library without some calls is made of the file in a
// moment, where compiling takes seconds.
func compileObject(backend, object string) error {
	sources, err := filepath.Glob(filepath.Join(backend, "fakecuda", "testdata", "*.c"))
	if err != nil {
		return err
	}
	command := []string{"cc", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fPIC", "-I" + filepath.Join(backend, "driver"), "-r", "-o", object}
	return compiled.MakeFiles(filepath.Dir(object), []string{filepath.Base(object)}, append(command, sources...)...)
}

// runTool runs a program. The error has the program's output.
func runTool(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// backendFolder returns the folder of package cuda. The folder is found from the working folder, which is inside of the
// module in every test: the paths in a binary that was built with -trimpath lead nowhere.
func backendFolder() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(folder, "proxyd", "device", "backend", "cuda"), nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no go.mod above the working folder: the sources of the fake driver are not known")
		}
		folder = filepath.Dir(folder)
	}
}

func (l *Library) findSymbol(name string) unsafe.Pointer {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.dlsym(l.library, n)
}

// Reset begins a log of all calls in a file, or keeps no log for "", with devices of so much memory. All calls succeed
// from here on.
func (l *Library) Reset(log string, memory uint64) {
	name := C.CString(log)
	defer C.free(unsafe.Pointer(name))
	C.reset(l.findSymbol("fake_reset"), name, C.size_t(memory))
}

// SetVersion has the library say that it is of a version of CUDA: 13000 is 13.0. Until then it says 12.4. A test that wants a
// driver of that version builds the library without the calls that such a driver lacks, too.
func (l *Library) SetVersion(v int) { C.set_version(l.findSymbol("fake_set_version"), C.int(v)) }

// LoadWhole has modules be loaded with all of their kernels until Reset: as by a driver with CUDA_MODULE_LOADING=EAGER, and
// by a software GPU. Until then the library says that a kernel is loaded when it is looked up, as drivers do by default.
func (l *Library) LoadWhole() { C.keep(l.findSymbol("fake_load_whole")) }

// Fail has the n-th call of a name fail, from 1 on, and Failed tells whether that has happened.
func (l *Library) Fail(call string, n, result int) {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	C.fail(l.findSymbol("fake_fail"), name, C.int(n), C.int(result))
}

// FailFrom has the n-th call of a name, and all later calls of that name, fail.
func (l *Library) FailFrom(call string, n, result int) {
	l.Fail(call, n, result)
	C.fail_on(l.findSymbol("fake_fail_on"))
}

// Keep has contexts that end keep the addresses that they have reserved, until Reset.
func (l *Library) Keep() { C.keep(l.findSymbol("fake_keep")) }

// Failed tells whether the call that was to fail was made.
func (l *Library) Failed() bool { return C.number(l.findSymbol("fake_failed"), 0) != 0 }

// Halt has the n-th call of a name, from 1 on, wait until Resume. Halted tells whether the call waits.
func (l *Library) Halt(call string, n int) {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	C.halt(l.findSymbol("fake_halt"), name, C.int(n))
}

// Halted tells whether the call that Halt has named waits.
func (l *Library) Halted() bool { return C.number(l.findSymbol("fake_halted"), 0) != 0 }

// Resume lets the waiting call go on.
func (l *Library) Resume() { C.resume(l.findSymbol("fake_resume")) }

// kinds are the objects that fake_live counts.
var kinds = []string{"contexts", "streams", "events", "modules", "memories", "mappings", "reservations", "pinned", "registered", "graphs", "communicators", "lists"}

// Reserve has the library reserve n bytes of addresses, which stay reserved, and returns where.
func (l *Library) Reserve(n int) uint64 {
	return uint64(uintptr(C.reserve(l.findSymbol("fake_reserve"), C.size_t(n))))
}

// LastReserved is where the library has reserved addresses last: each context does so when it is made.
func (l *Library) LastReserved() uint64 { return uint64(C.place(l.findSymbol("fake_last_reserved"))) }

// Live lists the objects that have not been ended yet.
func (l *Library) Live() string {
	var out []string
	for i, k := range kinds {
		if n := C.number(l.findSymbol("fake_live"), C.int(i)); n != 0 {
			out = append(out, fmt.Sprintf("%d %s", n, k))
		}
	}
	return strings.Join(out, ", ")
}
