// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/tiles"
)

// onlooker is a Sink that looks at criu whenever criu begins an image.
type onlooker struct {
	discard
	t    *testing.T
	init int

	mu             sync.Mutex
	status, limits string // of the latest calls
	data           int64  // the most memory of criu's own, KiB
}

func (o *onlooker) Create(string) (io.WriteCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	members, err := listMembers(o.init)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.name != "criu" || m.zombie {
			continue
		}
		o.status = readFile(o.t, fmt.Sprintf("/proc/%d/status", m.host))
		o.limits = readFile(o.t, fmt.Sprintf("/proc/%d/limits", m.host))
		n, err := strconv.ParseInt(strings.TrimSuffix(statusField(o.status, "VmData"), " kB"), 10, 64)
		if err != nil {
			return nil, err
		}
		o.data = max(o.data, n)
	}
	return o, nil
}

// statusField returns the value of a key in a status of /proc.
func statusField(status, key string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// TestConfined: at a dump criu has the user's ids, few capabilities, a filter of system calls, and a bound of its
// memory, from which the worst program is far away.
func TestConfined(t *testing.T) {
	needCRIU(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", `
import ctypes, mmap, sys
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
n = 0
while n < 65000: # neighbours with different protection are mappings of their own
    a = libc.mmap(None, 4096, 3 if n % 2 else 1, 0x8022, -1, 0)
    if a in (None, 2**64 - 1): break
    n += 1
print(n > 60000, flush=True); sys.stdin.read()`)
	r.expectLine("True")
	o := &onlooker{t: t, init: c.initPID()}
	dumpProgram(t, r.program, o)
	kept, err := permittedCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	may := uint64(0)
	for _, c := range dumpCapabilities {
		may |= 1 << c & kept
	}
	capabilities := fmt.Sprintf("%016x", may)
	ids := strings.TrimSpace(strings.Repeat(fmt.Sprint(user)+" ", 4))
	for key, want := range map[string]string{
		"Uid": ids, "Gid": ids, "CapPrm": capabilities, "CapEff": capabilities, "CapBnd": capabilities, "CapInh": capabilities,
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got := statusField(o.status, key); got != want {
			t.Errorf("criu's %s is %q, want %q", key, got, want)
		}
	}
	for _, name := range []string{"CAP_DAC_OVERRIDE", "CAP_SETUID"} {
		bit := map[string]int{"CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_SETUID": unix.CAP_SETUID}[name]
		if may&(1<<bit) != 0 {
			t.Errorf("criu has %s", name)
		}
	}
	if want := fmt.Sprintf("Max data size %d %d bytes", dumpMemory, dumpMemory); !strings.Contains(strings.Join(strings.Fields(o.limits), " "), want) {
		t.Errorf("criu's limits lack %q:\n%s", want, o.limits)
	}
	t.Logf("criu's own memory: %d MiB of %d MiB", o.data>>10, dumpMemory>>20)
	if o.data<<10 > dumpMemory/4 {
		t.Error("a program within the kernel's limits comes near to the bound")
	}
}

// restoreOnlooker is a Source that looks at criu whenever criu reads an image.
type restoreOnlooker struct {
	Source
	t    *testing.T
	init int

	mu      sync.Mutex
	seen    int
	cgroups map[string]bool // of criu's processes
	status  string          // the latest
}

func (o *restoreOnlooker) Open(name string) (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	members, err := listMembers(o.init)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.name != "criu" || m.zombie {
			continue
		}
		o.seen++
		o.status = readFile(o.t, fmt.Sprintf("/proc/%d/status", m.host))
		o.cgroups[strings.TrimSpace(readFile(o.t, fmt.Sprintf("/proc/%d/cgroup", m.host)))] = true
	}
	return o.Source.Open(name)
}

// TestRestoreConfined: at a restore criu has the user's ids, and stands in the program's cgroup, which is below the
// job's: the job's limits hold for criu's memory and processes, and Slurm's end of the job ends criu.
func TestRestoreConfined(t *testing.T) {
	needCRIU(t)
	img, dir := dumpCounting(t)

	g := newCgroup(t)
	c := newCapsule(t)
	o := &restoreOnlooker{Source: dir, t: t, init: c.initPID(), cgroups: map[string]bool{}}
	r := makePipes(t)
	if err := Restore(testDeadline(t), img, Program{Init: c.initPID(), Cgroup: string(g)}, r.far, o); err != nil {
		explainTo(t, err)
		t.Fatal(err)
	}
	r.closeFar()
	r.askAndExpect("b", "1 b 101")
	if o.seen == 0 {
		t.Fatal("criu was not seen")
	}
	for path := range o.cgroups {
		if !strings.HasSuffix(path, fmt.Sprintf("/criu-test-%d/program", os.Getpid())) {
			t.Errorf("criu is in the cgroup %q", path)
		}
	}
	ids := strings.TrimSpace(strings.Repeat(fmt.Sprint(user)+" ", 4))
	if got := statusField(o.status, "Uid"); got != ids {
		t.Errorf("criu's ids are %s", got)
	}
	effective, err := strconv.ParseUint(statusField(o.status, "CapEff"), 16, 64)
	if err != nil || effective&(1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_DAC_READ_SEARCH|1<<unix.CAP_SETUID) != 0 {
		t.Errorf("criu's capabilities are %x, %v", effective, err)
	}
}

// TestFilter: the filter refuses exactly the calls that it should refuse.
func TestFilter(t *testing.T) {
	var said bytes.Buffer
	cmd := exec.Command("/proc/self/exe", filteredArg)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := startFiltered(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the process with the filter failed: %v\n%s", err, said.String())
	}
	want := "mount operation not permitted\nrename operation not permitted\nchown operation not permitted\nbpf operation not permitted\n" +
		"inet operation not permitted\npacket operation not permitted\nunix <nil>\nnetlink <nil>\npipe <nil>\n"
	if said.String() != want {
		t.Errorf("results of the calls with the filter are\n%swant\n%s", said.String(), want)
	}
	// The test's own threads go on without the filter.
	if err := os.Rename(t.TempDir(), t.TempDir()+"/moved"); err != nil {
		t.Error(err)
	}
}

// tryCalls is a process with the filter.
func tryCalls() int {
	open := func(domain, kind int) error {
		_, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		return err
	}
	_, _, bpf := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
	fmt.Println("mount", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	fmt.Println("rename", unix.Rename("/nonexistent/a", "/nonexistent/b"))
	fmt.Println("chown", unix.Chown("/nonexistent/a", 1, 1))
	fmt.Println("bpf", error(bpf))
	fmt.Println("inet", open(unix.AF_INET, unix.SOCK_STREAM))
	fmt.Println("packet", open(unix.AF_PACKET, unix.SOCK_DGRAM))
	fmt.Println("unix", open(unix.AF_UNIX, unix.SOCK_STREAM))
	fmt.Println("netlink", open(unix.AF_NETLINK, unix.SOCK_RAW))
	var p [2]int
	fmt.Println("pipe", unix.Pipe2(p[:], unix.O_CLOEXEC))
	return 0
}

// TestRefuseTiles: a program that has used AMX tiles is refused by name before criu runs.
func TestRefuseTiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it loads a BPF program")
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err != nil || !strings.Contains(string(info), " amx_tile") {
		t.Skip("SKIP: the processor has no AMX")
	}
	if err := tiles.Prepare(); err != nil {
		t.Skip("SKIP: needs BPF and BTF: ", err)
	}
	program := exec.Command("python3", "-c", `
import ctypes, mmap, sys
assert ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0 # ARCH_REQ_XCOMP_PERM
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("c4e2784907" "c4e27b49c0" "c4e27849c0" "c3")) # ldtilecfg (%rdi); tilezero %tmm0; tilerelease; ret
configuration = ctypes.create_string_buffer(64); configuration[0], configuration[16], configuration[48] = 1, 64, 16
print("ready", flush=True); sys.stdin.readline()
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(code)))(ctypes.addressof(configuration))
print("used", flush=True); sys.stdin.read()`)
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = program.Wait()
	})
	lines := bufio.NewReader(out)
	p := Program{Init: os.Getpid(), PID: program.Process.Pid}
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	if err := refuseProcesses(p); err != nil {
		t.Errorf("before its first tile instruction: %v", err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "used\n" {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	want := fmt.Sprintf("process %d (python3) uses AMX tiles, which CRIU does not save", p.PID)
	if err := refuseProcesses(p); err == nil || err.Error() != want {
		t.Errorf("afterwards: %v, want %s", err, want)
	}
}

// TestRefuseWithoutDescriptors: a program with a process that may not open as many files as criu needs is refused by name,
// as long as that process is there, and runs on. A zombie is no reason, nor a process that may open as many.
func TestRefuseWithoutDescriptors(t *testing.T) {
	needCRIU(t)
	for limit, left := range map[int]int{0: 0, 1: 0, 3: 2, 4: 3, 5: neededDescriptors} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			g := newCgroup(t)
			c := newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", fmt.Sprintf("LIMIT = %d", limit)+`
import os, resource
def start():
    (r, w), (r2, w2) = os.pipe(), os.pipe(); pid = os.fork()
    if pid == 0: os.dup2(r, 0); os.closerange(1, w2); os.closerange(w2 + 1, 1000); os.write(w2, b'.'); os.close(w2); os.read(0, 1); os._exit(0)
    os.read(r2, 1); resource.prlimit(pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    for fd in r, r2, w2: os.close(fd)
    return pid, w
zombie, w = start(); os.close(w); os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
pid, w = start(); print(pid, flush=True)
while True:
    try: line = input()
    except EOFError: break
    if line == 'end': os.close(w); os.waitpid(pid, 0)
    print(line, flush=True)`)
			process := r.readLine()
			g.putProcess(t, r)
			freeze := func(frozen bool) {
				t.Helper()
				if err := g.setFrozen(testDeadline(t), frozen); err != nil {
					t.Fatal(err)
				}
			}
			freeze(true)
			_, err := Dump(testDeadline(t), r.program, newImageFolder(t))
			want := fmt.Sprintf("dump of process %d: process %s (python3) may open only %d more files (ulimit -n), and CRIU needs 4", r.program.PID, process, left)
			switch {
			case left == neededDescriptors && err != nil, left < neededDescriptors && (!errors.Is(err, ErrNotNow) || err.Error() != want):
				t.Errorf("Dump: %v, want %s", err, want)
			}
			freeze(false)
			r.askAndExpect("end", "end")
			freeze(true)
			dumpProgram(t, r.program, newImageFolder(t))
			freeze(false)
			r.askAndExpect("more", "more")
		})
	}
}
