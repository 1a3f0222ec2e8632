// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// busy counts as fast as possible, in two processes, and answers lines.
const busy = `(while :; do :; done) & echo ready; while read -r line; do echo "$line"; done; kill %1; exit 3`

// processorTime returns the processor time that a cgroup has used, in microseconds.
func processorTime(t *testing.T, cgroup string) (n int64) {
	t.Helper()
	b, err := os.ReadFile(group(cgroup).filePath("cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(b), "usage_usec %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFreeze(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	a, b := task{c: c, name: "a", argv: shellCommand(busy)}.startTask(t), task{c: c, name: "b", argv: shellCommand(busy)}.startTask(t)
	a.out.expectLine("ready")
	b.out.expectLine("ready")
	frozen := func() (names []string) {
		t.Helper()
		all, err := c.Programs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Frozen {
				names = append(names, p.Name)
			}
		}
		return names
	}
	stands := func(name string) {
		t.Helper()
		cgroup := programNamed(t, c, name).Cgroup
		before := processorTime(t, cgroup)
		time.Sleep(50 * time.Millisecond) // a running program would use processor time meanwhile
		// The kernel may count the program's last system call late.
		if after := processorTime(t, cgroup); after > before+1000 {
			t.Errorf("%s is frozen and used %d µs of processor time, want none", name, after-before)
		}
	}
	runs := func(name string) {
		t.Helper()
		cgroup := programNamed(t, c, name).Cgroup
		for before := processorTime(t, cgroup); processorTime(t, cgroup) == before && ctx.Err() == nil; {
			time.Sleep(time.Millisecond) // a clock has no event
		}
		if ctx.Err() != nil {
			t.Errorf("%s does not run", name)
		}
	}
	for range 20 {
		if err := c.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Freeze(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if got := frozen(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("frozen programs = %v, want a", got)
	}
	stands("a")
	runs("b")
	b.checkEcho("on")
	if err := c.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	if got := frozen(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("frozen programs = %v, want a and b", got)
	}
	stands("a")
	stands("b")
	// A frozen program does not handle the signal.
	a.sendSignal(syscall.SIGTERM)
	var refused *RefusedError
	if err := c.Freeze(ctx, "a", "nosuch"); !errors.As(err, &refused) || refused.Program != "nosuch" {
		t.Errorf("Freeze of a program that is not there: %v", err)
	}
	if got := frozen(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("frozen programs = %v, want a and b", got)
	}
	if err := c.Thaw(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	b.checkEcho("on again")
	if err := c.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	if status := a.waitForEnd(); status != syscall.WaitStatus(syscall.SIGTERM) {
		t.Errorf("status of a = %#x, want death by SIGTERM", int(status))
	}
	b.in.Close()
	if status := b.waitForEnd(); status != 3<<8 {
		t.Errorf("status of b = %#x, want exit code 3", int(status))
	}
	if err := errors.Join(c.Freeze(ctx), c.Thaw(ctx)); err != nil {
		t.Errorf("Freeze in a capsule without programs: %v", err)
	}
}

// TestFreezeAdopted: a maker dies between Freeze and Thaw. The next maker can thaw.
func TestFreezeAdopted(t *testing.T) {
	c := newCapsule(t)
	r := task{c: c, argv: shellCommand(busy)}.startTask(t)
	r.out.expectLine("ready")
	if err := c.Freeze(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	other, err := Adopt(testDeadline(t), c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if !programNamed(t, other, "batch").Frozen {
		t.Error("the program batch is not frozen in the capsule that was adopted")
	}
	if err := other.Thaw(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	r.checkEcho("alive")
}

// TestFreezeFails: a program that cannot be frozen in time runs on, and so do the other programs of the same
// Freeze.
func TestFreezeFails(t *testing.T) {
	needRoot(t)
	dead, revive := deadFileServer(t)
	c := newCapsule(t)
	r := task{c: c, name: "a", argv: shellCommand(busy)}.startTask(t)
	r.out.expectLine("ready")
	stuck := task{c: c, name: "b", argv: shellCommand("echo ready; stat " + dead + "/x 2>/dev/null; read -r line; echo $line")}.startTask(t)
	stuck.out.expectLine("ready")
	for ctx := testDeadline(t); ; {
		b, err := os.ReadFile(group(programNamed(t, c, "b").Cgroup).filePath("cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		waits := false
		for pid := range strings.FieldsSeq(string(b)) {
			state, _ := os.ReadFile("/proc/" + pid + "/wchan")
			waits = waits || strings.HasPrefix(string(state), "fuse")
		}
		if waits {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("no process waits for the file server")
		}
		time.Sleep(time.Millisecond) // a state has no event
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := c.Freeze(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Freeze: error %v, want %v", err, context.DeadlineExceeded)
		}
		cancel()
		for _, name := range []string{"a", "b"} {
			if programNamed(t, c, name).Frozen {
				t.Errorf("the program %s is still frozen after a freeze that failed", name)
			}
		}
		r.checkEcho("alive")
	}
	revive()
	stuck.checkEcho("alive")
	if err := c.Freeze(testDeadline(t)); err != nil {
		t.Error(err)
	}
}

// deadFileServer mounts a file system with a server that does not answer. A process that looks at the file system
// cannot be frozen until the server is gone.
func deadFileServer(t *testing.T) (dir string, revive func()) {
	t.Helper()
	dir = filepath.Join(tools.dir, "dead")
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("SKIP: needs FUSE: ", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", localsock.Descriptors([]*os.File{f})[0])
	if err := unix.Mount("dead", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		t.Skip("SKIP: needs FUSE: ", err)
	}
	t.Cleanup(func() {
		f.Close()
		if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir, func() { f.Close() }
}

func TestEnded(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	for name, script := range map[string]string{"a": "exit 0", "b": "exit 3", "c": "kill -9 $$", "d": ":"} {
		task{c: c, name: name, argv: shellCommand(script)}.runTask(t)
	}
	captured := task{c: c, name: "e", argv: shellCommand(family)}.startTask(t)
	captured.out.expectLine("ready")
	e := watchEvents(t, c)
	e.waitForProgram("e")
	if err := errors.Join(c.MarkCaptured(ctx, "e"), c.Signal(ctx, "e", syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	e.nextEvent(Captured)
	if err := c.Release(ctx, "e", 0); err != nil {
		t.Fatal(err)
	}
	captured.waitForEnd()
	if err := c.Forget(ctx, "d", "nosuch"); err != nil {
		t.Fatal(err)
	}
	other, err := Adopt(ctx, c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	got, err := other.Ended(ctx)
	if want := fmt.Sprint(map[string]syscall.WaitStatus{"a": 0, "b": 3 << 8, "c": 9}); err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	again := task{c: c, name: "b", argv: shellCommand(family)}.startTask(t)
	again.out.expectLine("ready")
	if got, err := c.Ended(ctx); err != nil || len(got) != 2 {
		t.Errorf("a process runs again: %v %v", got, err)
	}
}

// TestManyEnded: init remembers the newest ends up to its limit, and forgets the oldest.
func TestManyEnded(t *testing.T) {
	table := newTable(nil)
	for i := range maxEnded + 10 {
		if _, err := table.startProgram(1, Program{Name: fmt.Sprintf("%047d", i), PID: 1000, First: 1001}); err != nil {
			t.Fatal(err)
		}
		table.handleReapedChild(1000, 0)
	}
	seen, last := 0, ""
	for more := true; more; {
		var some []endedProgram
		some, more = table.endedAfter(last)
		for _, e := range some {
			if want := fmt.Sprintf("%047d", seen+10); e.Name != want {
				t.Fatalf("got %s, want %s", e.Name, want)
			}
			seen, last = seen+1, e.Name
		}
	}
	if seen != maxEnded || len(table.order) != maxEnded {
		t.Errorf("%d are told, %d known", seen, len(table.order))
	}
}

// TestFreezeVfork: a program is not frozen in the middle of a vfork, where criu could not dump the program.
func TestFreezeVfork(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("/var/lib", "freeze-vfork-") // a capsule has a /tmp of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := newCapsule(t)
	program := filepath.Join(dir, "vfork")
	if out, err := exec.Command("cp", filepath.Join(tools.dir, "vfork"), program).CombinedOutput(); err != nil {
		t.Fatalf("cp of the program: %v: %s", err, out)
	}
	ctx := testDeadline(t)
	a := task{c: c, name: "a", argv: []string{program}}.startTask(t)
	a.out.expectLine("ready")
	cgroup := group(programNamed(t, c, "a").Cgroup)
	hit := 0
	for range 20 {
		// These are the steps of Freeze without its check for vfork.
		if err := freezeGroups(ctx, []group{cgroup}); err != nil {
			t.Fatal(err)
		}
		if waitsInVfork([]group{cgroup}) {
			hit++
		}
		if err := c.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		if waitsInVfork([]group{cgroup}) {
			t.Fatal("frozen in a vfork")
		}
		if err := c.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if hit == 0 {
		t.Error("never in a vfork: nothing was tested")
	}
	a.sendSignal(syscall.SIGKILL)
	a.waitForEnd()
}
