// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/landlock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/tiles"
)

func TestParseAddrPort(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"0000000000000000FFFF00000100007F:0016": "127.0.0.1:22",
		"00000000000000000000000001000000:0016": "[::1]:22",
	} {
		if got, ok := parseAddrPort(in); !ok || got.String() != want {
			t.Errorf("parseAddrPort(%s) = %s, %v", in, got, ok)
		}
	}
	for _, bad := range []string{"", "x", "0100007F", "01:16", "0100007F:x"} {
		if got, ok := parseAddrPort(bad); ok {
			t.Errorf("parseAddrPort(%q) = %s, want no address", bad, got)
		}
	}
}

func TestPMI(t *testing.T) {
	for environ, want := range map[string]string{
		"SLURM_JOB_ID=26\x00PMI_FD=16\x00PMI_JOBID=26.0\x00PMI_RANK=0\x00": "16",
		"PMI_FD=16\x00PMI_RANK=0\x00SLURM_JOB_ID=26\x00":                   "", // mpiexec
		"SLURM_JOB_ID=2\x00PMI_FD=16\x00PMI_JOBID=26.0\x00":                "",
		"PMI_FD=16\x00PMI_JOBID=.0\x00":                                    "",
		"":                                                                 "",
	} {
		if got := pmiDescriptor(environ); got != want {
			t.Errorf("%q: %q, want %q", environ, got, want)
		}
	}
}

func TestProcess(t *testing.T) {
	since, command := Info("/proc/self")
	if !strings.HasPrefix(command, os.Args[0]) || time.Since(since) < 0 || time.Since(since) > 10*time.Minute {
		t.Errorf("Info of this process: since %s, command %s", since, command)
	}
	if since, command := Info("/proc/0"); !since.IsZero() || command != "" {
		t.Errorf("process that has ended: %s, %s", since, command)
	}
}

// TestObstacleAge: an obstacle that is found again keeps its age.
func TestObstacleAge(t *testing.T) {
	o := Obstacle{Program: "batch", PID: 7, Name: "ssh", What: "has a terminal"}
	first := o.WithSince("n1", time.Unix(1, 0), nil)
	again := o.WithSince("n1", time.Unix(2, 0), []Obstacle{o.WithSince("n2", time.Unix(0, 0), nil), first})
	other := o.WithSince("n3", time.Unix(3, 0), []Obstacle{first})
	if first.Since.Unix() != 1 || again.Since.Unix() != 1 || again.Node != "n1" || other.Since.Unix() != 3 {
		t.Errorf("times of the first and the second look, and on another node: %v %v %v", first, again, other)
	}
}

// startInNamespaces starts a program in namespaces of its own, and returns its PID. The program ends with the test.
func startInNamespaces(t *testing.T, flags uintptr, change ...func(*exec.Cmd)) (pid int) {
	t.Helper()
	program := exec.Command("cat")
	for _, f := range change {
		f(program)
	}
	program.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Skip("SKIP: this machine makes no user namespaces: ", err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = program.Wait()
	})
	return program.Process.Pid
}

// TestNestedNamespaces: a container within a program is found and named.
func TestNestedNamespaces(t *testing.T) {
	pid := startInNamespaces(t, syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS)
	if got := nestedNamespaces(os.Getpid(), pid); got != "is in a container of its own (user, mount namespace)" {
		t.Errorf("a process in namespaces of its own: %q", got)
	}
	if got := nestedNamespaces(os.Getpid(), os.Getpid()); got != "" {
		t.Errorf("of this process: %q", got)
	}
}

// TestNestedFirst: a process in a PID namespace below the capsule's may have the same PID there as the first process of a
// program has in the capsule. findByCapsulePID does not take the former for the latter.
func TestNestedFirst(t *testing.T) {
	first := startInNamespaces(t, 0)
	nested := startInNamespaces(t, syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID)
	pids := []int{nested, first} // the kernel lists them in any order
	if got, err := findByCapsulePID(os.Getpid(), pids, first); got != first || err != nil {
		t.Errorf("findByCapsulePID of PID %d = %d, %v", first, got, err)
	}
	if got, err := findByCapsulePID(os.Getpid(), pids, 1); !errors.Is(err, unix.ENOENT) {
		t.Errorf("number 1: process %d, %v; that is the nested process's number in its own namespace", got, err)
	}
}

// TestNestedObstacles: obstacles of processes in PID namespaces of their own are named by the PIDs in the capsule. In
// their own namespaces all of them have PID 1, and would be taken for a single process.
func TestNestedObstacles(t *testing.T) {
	var pids []int
	var sockets []OutsideSocket
	for range 2 {
		pid := startInNamespaces(t, syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID)
		pids = append(pids, pid)
		sockets = append(sockets, OutsideSocket{program: "batch", pid: pid, To: "192.0.2.1:80"})
	}
	found := OutsideObstacles(os.Getpid(), sockets, func(OutsideSocket) string { return "close it" })
	if len(found) != 2 || found[0].PID != pids[0] || found[1].PID != pids[1] {
		t.Errorf("processes %v, obstacles %+v", pids, found)
	}
}

// TestNestedDescriptor: likewise, for a descriptor of a process.
func TestNestedDescriptor(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	slurm, other := os.NewFile(uintptr(pair[0]), "slurm"), os.NewFile(uintptr(pair[1]), "other")
	defer slurm.Close()
	defer other.Close()
	pid := startInNamespaces(t, syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID, func(program *exec.Cmd) {
		program.Env = []string{"SLURM_JOB_ID=7", "PMI_JOBID=7.0", "PMI_FD=3"}
		program.ExtraFiles = []*os.File{slurm}
	})
	found := ownSearch(t).findObstacles(t.Context(), capsule.Program{Name: "batch"}, pid, terminals{})
	if len(found) != 1 || found[0].PID != pid {
		t.Errorf("process %d, obstacles %+v", pid, found)
	}
}

// TestDevices: a descriptor with state outside of its process is named, with advice. tests/cluster does the same for
// the descriptors that any user can open.
func TestDevices(t *testing.T) {
	openFile := func(name string) (int, error) { return unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0) }
	for name, test := range map[string]struct {
		open func() (int, error)
		want string
	}{
		"BPF map":     {newMap, "holds a BPF program or map: run the program without its tracer"},
		"FUSE":        {func() (int, error) { return openFile("/dev/fuse") }, "serves a file system, /dev/fuse: unmount the file system before a checkpoint"},
		"KVM":         {func() (int, error) { return openFile("/dev/kvm") }, "runs a virtual machine, /dev/kvm: end the virtual machine, or have it emulate the processor"},
		"userfaultfd": {newUserfault, "handles page faults itself: switch that off in the program"},
		"perf": {func() (int, error) {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS, Bits: unix.PerfBitExcludeKernel}
			return unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		}, "measures performance counters: run the program without its profiler"},
	} {
		t.Run(name, func(t *testing.T) {
			fd, err := test.open()
			if err != nil {
				t.Skip("SKIP: this machine has none: ", err)
			}
			held := os.NewFile(uintptr(fd), name)
			defer held.Close()
			pid := startInNamespaces(t, 0, func(program *exec.Cmd) { program.ExtraFiles = []*os.File{held} })
			found := ownSearch(t).findObstacles(t.Context(), capsule.Program{Name: "batch"}, pid, terminals{})
			if want := fmt.Sprintf("cat (PID %d) %s", pid, test.want); len(found) != 1 || found[0].String() != want {
				t.Errorf("obstacles %v, want %s", found, want)
			}
		})
	}
}

// newMap makes a BPF map: an array of a single number.
func newMap() (int, error) {
	attr := struct{ kind, key, value, entries, flags uint32 }{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func newUserfault() (int, error) {
	const userModeOnly = 1
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// TestCapsulePID: a process in a PID namespace below the capsule's is named by its PID in the capsule.
func TestCapsulePID(t *testing.T) {
	pid := startInNamespaces(t, syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID)
	if got := NamespacePID(pid); got != 1 {
		t.Errorf("in its own namespace: %d, want 1", got)
	}
	if got := capsulePID(os.Getpid(), pid); got != pid {
		t.Errorf("in that of this process: %d, want %d", got, pid)
	}
}

// TestLandlock: a process that has confined itself by Landlock is named, with advice.
func TestLandlock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it loads a BPF program")
	}
	if there, err := landlock.Prepare(); err != nil || !there {
		t.Skip("SKIP: needs Landlock, BPF and BTF: ", err)
	}
	pid := startPython(t, `
import ctypes
libc = ctypes.CDLL(None)
ruleset = libc.syscall(444, ctypes.byref(ctypes.c_uint64(1)), 8, 0)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, ruleset, 0) == 0`)
	found := FindObstacles(t.Context(), os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: groupOf(t, pid)}})
	want := fmt.Sprintf("python3 (PID %d) has confined itself by Landlock: run the program without its sandbox", pid)
	if !slices.ContainsFunc(found, func(o Obstacle) bool { return o.String() == want }) {
		t.Errorf("obstacles %v, want %s", found, want)
	}
	if plain := startInNamespaces(t, 0); strings.Contains(fmt.Sprint(FindObstacles(t.Context(), os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: groupOf(t, plain)}})), "Landlock") {
		t.Error("a process without restrictions is named, too")
	}
}

// TestTiles: a process that has used AMX tiles is named, with advice.
func TestTiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it loads a BPF program")
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err != nil || !strings.Contains(string(info), " amx_tile") {
		t.Skip("SKIP: the processor has no AMX")
	}
	if err := tiles.Prepare(); err != nil {
		t.Skip("SKIP: needs BPF and BTF: ", err)
	}
	pid := startPython(t, `
import ctypes, mmap
assert ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0 # ARCH_REQ_XCOMP_PERM
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("c4e2784907" "c4e27b49c0" "c4e27849c0" "c3")) # ldtilecfg (%rdi); tilezero %tmm0; tilerelease; ret
configuration = ctypes.create_string_buffer(64); configuration[0], configuration[16], configuration[48] = 1, 64, 16
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(code)))(ctypes.addressof(configuration))`)
	found := FindObstacles(t.Context(), os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: groupOf(t, pid)}})
	want := fmt.Sprintf("python3 (PID %d) uses AMX tiles, which CRIU does not save: "+
		"have the program do without AMX (oneDNN: ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16)", pid)
	if !slices.ContainsFunc(found, func(o Obstacle) bool { return o.String() == want }) {
		t.Errorf("obstacles %v, want %s", found, want)
	}
}

// startPython starts a script, and returns its PID when the script has reached its end, where the process waits.
func startPython(t *testing.T, script string) int {
	t.Helper()
	return startPythonAs(t, "python3", script)
}

// startPythonAs is startPython with another path of Python's interpreter.
func startPythonAs(t *testing.T, python, script string) int {
	t.Helper()
	program := exec.Command(python, "-c", script+`
print("ready", flush=True)
import sys; sys.stdin.read()`)
	program.Stderr = os.Stderr
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
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	return program.Process.Pid
}
