// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// newCodeContext returns a context of a backend in which code may take limit bytes.
func newCodeContext(t *testing.T, limit uint64) (*Backend, backend.Context) {
	t.Helper()
	b, err := New(Config{Memory: []uint64{64 << 20}, Code: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err == nil {
		err = s.Map()
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	return b, c
}

// longCode is PTX of which the kernels are compiled when they are asked for.
func longCode() string {
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n")
	for k := range 100 {
		fmt.Fprintf(&b, ".visible .entry k%d(.param .u64 p)\n{\n.reg .u64 %%rd<2>;\n.reg .f32 %%f<2>;\nld.param.u64 %%rd1, [p];\n", k)
		for i := range 200 {
			fmt.Fprintf(&b, "ld.global.f32 %%f1, [%%rd1+%d];\nst.global.f32 [%%rd1+%d], %%f1;\n", 4*i, 4*i+4)
		}
		b.WriteString("ret;\n}\n")
	}
	return b.String()
}

// TestEndlessModules: modules and kernels beyond a bound are refused, and an unloaded module makes room.
func TestEndlessModules(t *testing.T) {
	_, c := newCodeContext(t, 64<<20)
	var all []backend.Module
	refused := error(nil)
	for n := 0; refused == nil && n < 10_000; n++ {
		m, _, err := c.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
		if refused = err; err == nil {
			all = append(all, m)
		}
	}
	if backend.ResultOf(refused) != backend.OutOfMemory || !strings.Contains(fmt.Sprint(refused), "64 MiB") || len(all) == 0 {
		t.Fatalf("after %d modules: %v", len(all), refused)
	}
	t.Logf("%d modules, then: %v", len(all), refused)
	for _, m := range all {
		if err := m.Unload(); err != nil {
			t.Fatal(err)
		}
	}
	clear(all)
	m, _, err := c.Load([]byte(longCode()), backend.LoadConfig{})
	if err != nil {
		t.Fatalf("after all modules are unloaded: %v", err)
	}
	asked := 0
	for refused = nil; refused == nil && asked < 100; asked++ {
		_, refused = m.Function(fmt.Sprintf("k%d", asked))
	}
	if backend.ResultOf(refused) != backend.OutOfMemory || asked < 2 {
		t.Errorf("kernel %d of a long module: %v", asked, refused)
	}
	if err := m.Unload(); err != nil {
		t.Fatal(err)
	}
	m = nil
	if _, _, err := c.Load([]byte(backendtest.Kernels), backend.LoadConfig{}); err != nil {
		t.Errorf("after the long module is unloaded: %v", err)
	}
}

// executableBytes is how much memory without a file this process may execute.
func executableBytes(t *testing.T) (sum uint64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var from, to uint64
		if w := strings.Fields(line); len(w) == 5 && strings.Contains(w[1], "x") {
			if _, err := fmt.Sscanf(w[0], "%x-%x", &from, &to); err != nil {
				t.Fatal(err)
			}
			sum += to - from
		}
	}
	return sum
}

// TestUnloadedCode: code that was executed and is unloaded is freed, machine code too, and does not count.
func TestUnloadedCode(t *testing.T) {
	b, c := newCodeContext(t, 64<<20)
	a, err := c.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	before := executableBytes(t)
	for range 400 { // more than fit
		m, _, err := c.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.Function("add")
		if err != nil {
			t.Fatal(err)
		}
		p := kernelParams(a, 1)
		if err := c.Legacy().Launch(backend.Launch{Function: f, Grid: backend.Dim{X: 1, Y: 1, Z: 1}, Block: backend.Dim{X: 32, Y: 1, Z: 1}, Params: p}); err != nil {
			t.Fatal(err)
		}
		if err := c.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Unload(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		b.code.mu.Lock()
		used := b.code.used
		b.code.mu.Unlock()
		left := executableBytes(t) - before
		if used == 0 && left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes of code count, %d bytes of machine code are left", used, left)
		}
	}
}
