// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// hugeArguments is a program that makes its arguments and its environment a gigabyte long, of memory that the program never
// touches: any user can.
const hugeArguments = `
import ctypes, mmap, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 1 << 30
at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)  # MAP_NORESERVE
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
code, end, stack, data, data_end, brk = (int(stat[n]) for n in (23, 24, 25, 42, 43, 44))
libc.sbrk.restype = ctypes.c_void_p
ends = struct.pack("12QIi", code, end, data, data_end, brk, libc.sbrk(0), stack, at, at + size // 2, at + size // 2, at + size, 0, 0, -1)
if libc.prctl(35, 14, ends, len(ends), 0):  # PR_SET_MM, PR_SET_MM_MAP
    sys.exit("prctl: %d" % ctypes.get_errno())
print("huge", flush=True)
sys.stdin.read()
`

// TestHugeArguments: a look at a program with huge arguments and a huge environment does not read them whole.
func TestHugeArguments(t *testing.T) {
	cmd := exec.Command("python3", "-c", hugeArguments)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	if err != nil || line != "huge\n" {
		t.Fatalf("the program: %q, %v: %s", line, err, said.String())
	}
	p, err := NewProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func(){
		"SlurmEnv":    func() { _, _ = SlurmEnv(p) },
		"slurmPMI":    func() { slurmPMI(p.PID) },
		"isStepdOf":   func() { isStepdOf(p.PID, 1) },
		"commandName": func() { commandName(p.PID) },
		"Info":        func() { Info("/proc/" + strconv.Itoa(p.PID)) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		look()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
			t.Errorf("%s has made %d MiB", name, got>>20)
		}
	}
}
