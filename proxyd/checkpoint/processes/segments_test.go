// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// segmentHelper is the first argument of a test binary that attaches a segment, as attachAndWait.
const segmentHelper = "attach-segment"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == segmentHelper {
		os.Exit(attachAndWait(os.Args[2]))
	}
	os.Exit(m.Run())
}

// attachAndWait attaches the segment of a number, touches it, says so, and waits for the end of its input.
func attachAndWait(number string) int {
	id := 0
	if _, err := fmt.Sscan(number, &id); err != nil {
		return 1
	}
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	memory[0]++
	fmt.Println("attached")
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	return 0
}

// newSegment makes a segment that goes with its last process.
func newSegment(t *testing.T) int {
	t.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<12, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Skip("SKIP: no System V shared memory here: ", err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return id
}

// startAttached starts a process that has a segment attached, and returns its PID.
func startAttached(t *testing.T, id int) int {
	t.Helper()
	helper := exec.Command("/proc/self/exe", segmentHelper, fmt.Sprint(id))
	helper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err1 := helper.StdinPipe()
	out, err2 := helper.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatalf("pipes of the helper: %v, %v", err1, err2)
	}
	runtime.LockOSThread() // the helper would be killed at the end of the thread (Pdeathsig)
	t.Cleanup(runtime.UnlockOSThread)
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = helper.Wait()
	})
	if f, ok := out.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(time.Minute))
	}
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil || word != "attached" {
		t.Fatalf("the helper says %q, %v; want attached", word, err)
	}
	return helper.Process.Pid
}

// TestSharedSegments: programs that have a segment of System V shared memory in common are named, each once; segments
// that only processes of a single program share are not named.
func TestSharedSegments(t *testing.T) {
	one, other := newSegment(t), newSegment(t)
	plain := startInNamespaces(t, 0)
	first, second, third, fourth := startAttached(t, one), startAttached(t, one), startAttached(t, one), startAttached(t, other)
	programs := []capsule.Program{{Name: "batch"}, {Name: "0.0"}, {Name: "0.1"}}
	for name, test := range map[string]struct {
		members [][]int
		want    map[string]int
	}{
		"two programs":  {[][]int{{plain, first, second}, {third}, {fourth}}, map[string]int{"batch": min(first, second), "0.0": third}},
		"a program":     {[][]int{{first, second, third}, {plain}, {fourth}}, nil},
		"each its own":  {[][]int{{first}, {fourth}, {plain}}, nil},
		"one has ended": {[][]int{{first}, {1 << 30}, nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, o := range findSharedSegments(t.Context(), os.Getpid(), programs, test.members) {
				got[o.Program] = o.PID
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("named %v, want %v", got, test.want)
			}
		})
	}
}
