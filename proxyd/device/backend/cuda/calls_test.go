// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

var update = flag.Bool("update", false, "write testdata anew")

// performScript carries the script out to its first error, and ends all objects.
func performScript(t *testing.T, l *fakecuda.Library, before func(name string)) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if before != nil {
		before("open")
	}
	b, err := Open(Config{Library: l.Path})
	if err != nil {
		return "open", err
	}
	p := &play{b: b, ctx: ctx}
	for _, s := range script {
		if before != nil {
			before(s.name)
		}
		err := s.do(p)
		p.waitUntilQuiet()
		if err != nil {
			return s.name, errors.Join(err, b.Close())
		}
	}
	return "", nil
}

// waitUntilQuiet returns when neither a goroutine nor the driver still works for earlier steps.
func (p *play) waitUntilQuiet() {
	s, _ := p.space.(*space)
	for s != nil && !s.isClosed() {
		s.mu.Lock()
		over, marks := s.freed.waitsForRange(0, ^uint64(0))
		left := len(over)+len(marks) > 0
		s.mu.Unlock()
		for _, st := range s.allStreams() {
			left = left || !st.isEmpty() // the fake driver carries work out in threads of its own
		}
		if !left {
			return
		}
		runtime.Gosched()
	}
}

// hidden matches the addresses that differ from run to run: those of the fake's own heap.
var hidden = regexp.MustCompile(`0x[567][0-9a-f]{11}`)

// TestCalls compares the calls of the driver, one by one, with those in testdata when that file was last reviewed.
func TestCalls(t *testing.T) {
	l := newFakeLibrary(t)
	log := filepath.Join(t.TempDir(), "calls")
	l.Reset(log, 1<<30)
	var marks []string
	name, err := performScript(t, l, func(name string) {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, fmt.Sprintf("%d\x00%s", len(text), name))
	})
	if err != nil {
		t.Fatalf("step %q of the script: %v", name, err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	l.Reset("", 1<<30)
	var out strings.Builder
	for i, m := range marks {
		from, name, _ := strings.Cut(m, "\x00")
		to := fmt.Sprint(len(text))
		if i+1 < len(marks) {
			to, _, _ = strings.Cut(marks[i+1], "\x00")
		}
		var a, b int
		fmt.Sscan(from, &a)
		fmt.Sscan(to, &b)
		fmt.Fprintf(&out, "# %s\n%s", name, hidden.ReplaceAll(text[a:b], []byte("HOST")))
	}
	const golden = "testdata/calls.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != string(want) {
		t.Errorf("the calls are not those of %s; -update writes it:\n%s", golden, firstDifference(string(want), got))
	}
}

// firstDifference shows the first lines that differ.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, b[i], a[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(b), len(a))
}

// TestVersions: a driver of CUDA 12.4 lacks a kind of tensor map, which is refused by its call's name, and a driver of 13.0
// lacks nothing: calls that replace older calls in its public header are made in their place.
func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		version       int
		at, refused   string // the step of the script that is refused, and the call that the error names; "": no step is refused
		makes, avoids []string
	}{
		{12040, "tensor map", "cuTensorMapEncodeIm2colWide", []string{"cuCtxCreate_v2", "cuEventElapsedTime", "cuDeviceGetUuid_v2"}, []string{"cuCtxCreate_v4", "cuEventElapsedTime_v2"}},
		{13000, "", "", []string{"cuCtxCreate_v4", "cuEventElapsedTime_v2", "cuDeviceGetUuid_v2", "cuTensorMapEncodeIm2colWide", "cuGraphAddKernelNode_v2"},
			[]string{"cuCtxCreate_v2", "cuEventElapsedTime", "cuDeviceGetUuid", "cuGraphAddKernelNode"}},
	} {
		t.Run(fmt.Sprint(tc.version), func(t *testing.T) {
			l := newFakeDriver(t, tc.version)
			log := filepath.Join(t.TempDir(), "calls")
			l.Reset(log, 1<<30)
			at, err := performScript(t, l, nil)
			if at != tc.at || err != nil && (!strings.Contains(err.Error(), tc.refused) || backend.ResultOf(err) != backend.NotSupported) {
				t.Errorf("the program stopped at %q: %v, want at %q, NotSupported, for lack of %q", at, err, tc.at, tc.refused)
			}
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			l.Reset("", 1<<30)
			made := map[string]bool{}
			for _, name := range regexp.MustCompile(`\bcu[A-Z]\w*`).FindAllString(string(text), -1) {
				made[name] = true
			}
			for _, name := range tc.makes {
				if !made[name] {
					t.Errorf("%s was not called", name)
				}
			}
			for _, name := range tc.avoids {
				if made[name] {
					t.Errorf("%s was called", name)
				}
			}
		})
	}
}

// scriptCalls is each of the driver's calls that the script makes, and how often.
func scriptCalls(t *testing.T) map[string]int {
	text, err := os.ReadFile("testdata/calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if name := regexp.MustCompile(`\bcu[A-Z]\w*`).FindString(line); name != "" && !strings.HasPrefix(line, "#") {
			out[name]++
		}
	}
	return out
}

// ending are calls that end something.
var ending = regexp.MustCompile(`Destroy|Unload|Release|Free|Unmap|Unregister`)

// TestErrors has each of the driver's calls fail, the first three times that the script makes the call, in short the
// first: the caller gets the driver's number, and no object is left. If a call that ends an object fails, the object
// has ended even so, and not every caller gets the error.
func TestErrors(t *testing.T) {
	l := newFakeLibrary(t)
	calls := scriptCalls(t)
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	sort.Strings(names)
	times := 3
	if testing.Short() {
		times = 1
	}
	for _, name := range names {
		for n := 1; n <= min(calls[name], times); n++ {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				l.Reset("", 1<<30)
				l.Fail(name, n, int(backend.OutOfMemory))
				at, err := performScript(t, l, nil)
				ends := ending.MatchString(name)
				switch {
				case !l.Failed():
					t.Errorf("the call was not made")
				case err == nil && !ends:
					t.Error("the failure of the call was not reported")
				case err != nil && !errors.Is(err, backend.OutOfMemory):
					t.Errorf("at %q the error is %v, want OutOfMemory", at, err)
				}
				if left := l.Live(); left != "" {
					t.Errorf("at %s (%v), objects that were not ended: %s", at, err, left)
				}
			})
		}
	}
}

// TestAbsent: features that need a call which an older driver lacks are refused by the call's name, or done in another
// way, and all other features work.
func TestAbsent(t *testing.T) {
	for _, tc := range []struct {
		call, at string // the step that is refused; "": no step is refused
	}{
		{"cuMemAddressReserve", "open"},
		{"cuStreamWriteValue32_v2", "write 4 bytes"},
		{"cuStreamWriteValue64_v2", "write 8 bytes"},
		{"cuLaunchCooperativeKernel", "launch together"},
		{"cuLaunchKernelEx", "launch in clusters"},
		{"cuOccupancyMaxActiveClusters", "ask for clusters"},
		{"cuOccupancyMaxPotentialClusterSize", "ask for clusters"},
		{"cuTensorMapEncodeTiled", "tensor map"},
		{"cuTensorMapEncodeIm2col", "tensor map"},
		{"cuTensorMapEncodeIm2colWide", "tensor map"},
		{"cuTensorMapReplaceAddress", "tensor map"},
		{"cuGraphKernelNodeSetAttribute", ""}, // each kernel is launched by itself
		{"cuGetExportTable", "groups of processors"},
		{"cuLinkCreate_v2", "link"},
		{"cuFuncGetParamInfo", ""},
		{"cuDeviceGetUuid_v2", ""},
		{"cuEventElapsedTime", ""},
		{"cuCtxCreate_v2", ""},
		{"cuGraphAddKernelNode", ""},
		{"cuGraphInstantiateWithFlags", ""},
	} {
		t.Run(tc.call, func(t *testing.T) {
			l := newFakeLibrary(t, tc.call)
			at, err := performScript(t, l, nil)
			if at != tc.at {
				t.Fatalf("the program stopped at %q: %v", at, err)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), tc.call) {
				t.Errorf("the error does not say that %s is missing: %v", tc.call, err)
			}
			if at == "open" {
				if !errors.Is(err, driver.ErrNoDriver) {
					t.Errorf("Open without the call: %v, want ErrNoDriver", err)
				}
			} else if backend.ResultOf(err) != backend.NotSupported {
				t.Errorf("error %v has the Result %v", err, backend.ResultOf(err))
			}
		})
	}
	if _, err := Open(Config{Library: filepath.Join(t.TempDir(), "libcuda.so.1")}); !errors.Is(err, driver.ErrNoDriver) {
		t.Errorf("without a library: %v", err)
	}
}
