// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shimtest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLoaded: a process loads two segments of the shim, of which the second is a page that is written to, and looks up
// few symbols at its start. Each process of a job pays for more.
func TestLoaded(t *testing.T) {
	buildTools(t)
	f, err := elf.Open(built.shims["plain"])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var loads []*elf.Prog
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			loads = append(loads, p)
		case elf.PT_GNU_RELRO:
			t.Error("a part is made read-only after the start")
		}
	}
	if len(loads) != 2 {
		t.Fatalf("%d segments are loaded, want 2", len(loads))
	}
	const page = 4096
	if w := loads[1]; w.Flags != elf.PF_R|elf.PF_W || w.Vaddr/page != (w.Vaddr+w.Memsz-1)/page {
		t.Errorf("the second segment has the flags %v, and lies at %#x to %#x: more than a page", w.Flags, w.Vaddr, w.Vaddr+w.Memsz)
	}
	section := f.Section(".rela.dyn")
	if section == nil {
		t.Fatal("the library has no section .rela.dyn")
	}
	relocations, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols := 0
	for at := 0; at < len(relocations); at += 24 {
		if f.ByteOrder.Uint32(relocations[at+12:]) != 0 {
			symbols++
		}
	}
	if symbols > 1 {
		t.Errorf("%d symbols are looked up at the start, want 1 at most", symbols)
	}
}

// countFaults returns the fewest page faults of some runs of a program.
func countFaults(t *testing.T, env []string) int64 {
	t.Helper()
	fewest := int64(-1)
	for range 20 {
		cmd := exec.Command("/bin/true")
		cmd.Env = env
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			t.Fatal("no resource usage")
		}
		if fewest < 0 || usage.Minflt < fewest {
			fewest = usage.Minflt
		}
	}
	return fewest
}

// TestStartFaults: the shim costs a process that changes no file a few page faults. Looking up all functions and
// touching all of its variables were 28.
func TestStartFaults(t *testing.T) {
	buildTools(t)
	r := newTrial(t, built.shims["plain"])
	without, with := countFaults(t, []string{"PATH=/usr/bin:/bin"}), countFaults(t, r.env)
	t.Logf("%d page faults with the shim, %d without", with, without)
	if with > without+10 {
		t.Errorf("%d page faults with the shim, %d without", with, without)
	}
}

// TestNextFunctions: the functions behind ours are the functions that dlsym finds, with any other library loaded.
func TestNextFunctions(t *testing.T) {
	buildTools(t)
	library, other := filepath.Join(built.dir, "libnext.so"), filepath.Join(built.dir, "libother.so")
	for _, c := range [][]string{
		{"cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE", "-fPIC", "-fvisibility=hidden", "-shared", "-o", library, "testdata/next_library.c", "../shim/next_library.c"},
		{"sh", "-c", "echo 'int open(void) { return -1; } int unlink(void) { return -1; }' | cc -w -fno-builtin -fPIC -shared -o " + other + " -x c -"},
		{"sh", "-c", "echo 'int rename(void) { return -1; }' | cc -w -fno-builtin -fPIC -shared -Wl,--hash-style=sysv -o " + other + ".sysv -x c -"},
	} {
		if _, err := runCommand(c[0], c[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	for _, preload := range []string{library, library + ":" + other, other + ":" + library, library + ":" + other + ".sysv"} {
		for _, bind := range []string{"", "1"} {
			cmd := exec.Command("/bin/true")
			cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload, "LD_BIND_NOW="+bind)
			out, err := cmd.CombinedOutput()
			var n int
			if _, scan := fmt.Sscanf(string(out), "compared %d\n", &n); err != nil || scan != nil || n < 40 || strings.Count(string(out), "\n") != 1 {
				t.Errorf("with LD_PRELOAD=%s: %v, output %s", preload, err, out)
			}
		}
	}
}
