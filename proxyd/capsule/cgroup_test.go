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
)

// stepGroup makes a cgroup as Slurm makes one for a task. The returned function removes the cgroup as Slurm does, and
// fails the test if the cgroup is not empty.
func stepGroup(t *testing.T) (group, func()) {
	t.Helper()
	parent := group(filepath.Join(cgroupRoot(t), fmt.Sprintf("capsule-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))))
	task := group(parent.filePath("task_0"))
	if err := os.MkdirAll(string(task), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := parent.clearAndRemove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return task, func() {
		t.Helper()
		if err := errors.Join(os.Remove(string(task)), os.Remove(string(parent))); err != nil {
			t.Errorf("Slurm could not remove its cgroup: %v", err)
		}
	}
}

// startIn starts k in a cgroup.
func (k task) startIn(t *testing.T, g group) *running {
	t.Helper()
	k.wrap = []string{"/bin/sh", "-c", `echo $$ >"$0"; exec "$@"`, g.filePath("cgroup.procs")}
	return k.startTask(t)
}

// groupsOf returns the cgroups that capsules have left in the hierarchy, below a folder.
func groupsOf(t *testing.T, root string, c *Capsule) []string {
	t.Helper()
	var found []string
	filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.Contains(e.Name(), c.rec.ID) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func TestCgroup(t *testing.T) {
	c := newCapsule(t)
	above, remove := stepGroup(t)
	r := task{c: c, argv: shellCommand(`id=$(sed -n s/^0:://p /proc/self/cgroup); echo "$id"
		for f in cgroup.procs cgroup.freeze cgroup.kill; do (echo 1 >"$1$id/$f") 2>/dev/null && echo "can write $f"; done
		mkdir "$1$id/x" 2>/dev/null && echo "can make"
		` + family)}
	r.argv = append(r.argv, "-", cgroupRoot(t))
	s := r.startIn(t, above)
	path, _ := s.out.nextLine()
	s.out.expectLine("ready")
	p := programNamed(t, c, "batch")
	want := above.filePath("sing-" + c.rec.ID + "-batch")
	if p.Cgroup != want || cgroupRoot(t)+path != want {
		t.Errorf("cgroup %s, the program says %s; want %s", p.Cgroup, path, want)
	}
	if p.WardenPID != s.cmd.Process.Pid {
		t.Errorf("warden %d, want %d", p.WardenPID, s.cmd.Process.Pid)
	}
	if st, err := os.Stat(p.Cgroup); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 || st.Mode().Perm()&0o022 != 0 {
		t.Errorf("cgroup %s: mode %v, error %v, want a folder that only root can write to", p.Cgroup, st.Mode(), err)
	}
	procs, err := os.ReadFile(group(p.Cgroup).filePath("cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	inside := strings.Fields(string(procs))
	for _, pid := range []int{p.HostPID, hostPID(t, c, p.First)} {
		if !slices.Contains(inside, fmt.Sprint(pid)) {
			t.Errorf("%d is not among %v", pid, inside)
		}
	}
	if slices.Contains(inside, fmt.Sprint(p.WardenPID)) || len(inside) < 4 {
		t.Errorf("in the cgroup are %v", inside)
	}
	s.in.Close()
	if status := s.waitForEnd(); status != 3<<8 {
		t.Errorf("status of the task = %#x, want exit code 3", int(status))
	}
	remove() // at once: Slurm does not wait either
	if rest := s.out.readToEnd(); len(rest) != 0 {
		t.Errorf("more output: %q", rest)
	}
}

// TestCgroupGoes: however a program ends, its cgroup is gone when Slurm removes the cgroup above.
func TestCgroupGoes(t *testing.T) {
	ended := func(t *testing.T, c *Capsule, r *running) {
		e := watchEvents(t, c)
		e.waitForProgram("batch")
		r.sendSignal(syscall.SIGKILL)
		r.waitForEnd()
		e.nextEvent(Ended)
	}
	for _, k := range []struct {
		name string
		do   func(*testing.T, *Capsule, *running)
	}{
		{"warden killed", ended},
		{"warden killed while frozen", func(t *testing.T, c *Capsule, r *running) {
			if err := c.Freeze(testDeadline(t)); err != nil {
				t.Fatal(err)
			}
			ended(t, c, r)
		}},
		{"steward killed", func(t *testing.T, c *Capsule, r *running) {
			fmt.Fprintln(r.in, "kill")
			if status := r.waitForEnd(); status != syscall.WaitStatus(syscall.SIGKILL) {
				t.Errorf("status of the task = %#x, want death by SIGKILL", int(status))
			}
		}},
		{"captured", func(t *testing.T, c *Capsule, r *running) {
			e := watchEvents(t, c)
			e.waitForProgram("batch")
			err := errors.Join(c.MarkCaptured(testDeadline(t), "batch"), c.Signal(testDeadline(t), "batch", syscall.SIGKILL))
			if err != nil {
				t.Fatal(err)
			}
			e.nextEvent(Captured)
			r.sendSignal(syscall.SIGTERM) // the warden ends by itself
			r.waitForEnd()
		}},
		{"init killed", func(t *testing.T, c *Capsule, r *running) {
			if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r.waitForEnd()
			if err := Discard(testDeadline(t), c.Dir()); err != nil {
				t.Fatal(err)
			}
		}},
		{"capsule killed", func(t *testing.T, c *Capsule, r *running) {
			if err := c.Kill(testDeadline(t)); err != nil {
				t.Fatal(err)
			}
			r.waitForEnd()
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := newCapsule(t)
			above, remove := stepGroup(t)
			r := task{c: c, argv: shellCommand(`(setsid setsid sleep 1001 &); sleep 1002 & echo ready
				read -r line; kill -9 $PPID; sleep 1003`)}.startIn(t, above)
			r.out.expectLine("ready")
			k.do(t, c, r)
			remove()
			r.out.readToEnd()
			if left := groupsOf(t, cgroupRoot(t), c); len(left) != 0 {
				t.Errorf("cgroups left = %v, want no cgroup", left)
			}
		})
	}
}

// TestCgroupOfRoot: a program of root's can make cgroups in its own cgroup.
func TestCgroupOfRoot(t *testing.T) {
	c := newCapsule(t)
	above, remove := stepGroup(t)
	r := task{c: c, uid: rootUID, argv: shellCommand(fmt.Sprintf(`g=%s$(sed -n s/^0:://p /proc/self/cgroup); mkdir -p $g/a/b $g/c
		sleep 1001 & echo $! >$g/a/b/cgroup.procs; echo ready; read -r line`, cgroupRoot(t)))}.startIn(t, above)
	r.out.expectLine("ready")
	r.in.Close()
	r.waitForEnd()
	remove()
	becomesEmpty(t, c)
}

// TestWaitingCgroup: the cgroup of a program exists while a warden waits for the program's restore, so that
// the restorer can use that cgroup. When the warden leaves, init kills the processes there and removes the cgroup.
func TestWaitingCgroup(t *testing.T) {
	c := newCapsule(t)
	above, _ := stepGroup(t)
	e := watchEvents(t, c)
	r := task{c: c, name: "s1.0", options: []string{"--restore"}, err: devNull(t)}.startIn(t, above)
	p := e.nextEvent(Waiting).Program
	if !p.Waiting || p.Cgroup != above.filePath("sing-"+c.rec.ID+"-s1.0") || p.WardenPID != r.cmd.Process.Pid {
		t.Errorf("waiting program = %+v, want its cgroup and its warden", p)
	}
	if !strings.HasPrefix(p.Stdio[0], "pipe:[") || !strings.HasPrefix(p.Stdio[1], "pipe:[") || p.Stdio[2] != "/dev/null" {
		t.Errorf("descriptors of the waiting warden = %q, want two pipes and /dev/null", p.Stdio)
	}
	if q := programNamed(t, c, "s1.0"); q != p { // as a restarted maker sees the program
		t.Errorf("program %+v, was %+v", q, p)
	}
	if err := c.MarkCaptured(testDeadline(t), "s1.0"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("captured before it is restored: %v", err)
	}
	restorer := exec.Command("sleep", "1000")
	if err := restorer.Start(); err != nil {
		t.Fatal(err)
	}
	if err := group(p.Cgroup).addProcesses(restorer.Process.Pid); err != nil {
		t.Fatal(err)
	}
	r.sendSignal(syscall.SIGKILL)
	restorer.Wait()
	r.waitForEnd()
	e.nextEvent(Left)
	task{c: c, name: "s1.0", options: []string{"--restore"}}.startTask(t) // the name is free
	e.nextEvent(Waiting)
	if left := groupsOf(t, string(above), c); len(left) != 0 {
		t.Errorf("cgroups left = %v, want no cgroup", left)
	}
}

// TestRestoredElsewhere: init refuses a restored program that is not in its own cgroup, to which its limits apply.
func TestRestoredElsewhere(t *testing.T) {
	c := newCapsule(t)
	e := watchEvents(t, c)
	running := task{c: c, name: "a", argv: shellCommand(family)}.startTask(t)
	running.out.expectLine("ready")
	task{c: c, name: "b", options: []string{"--restore"}}.startTask(t)
	e.nextEvent(Waiting)
	p := programNamed(t, c, "a")
	err := c.Restored(testDeadline(t), "b", p.PID, p.First)
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "not in its own") {
		t.Errorf("Restored: error %v, want EINVAL: not in its own cgroup", err)
	}
	running.checkEcho("still here")
}

// TestNoCgroups: on a node without cgroup v2 everything works except freezing.
func TestNoCgroups(t *testing.T) {
	c := newCapsule(t, func(s *Spec) { s.Cgroups = "" })
	r := task{c: c, argv: shellCommand(family)}.startTask(t)
	r.out.expectLine("ready")
	if p := programNamed(t, c, "batch"); p.Cgroup != "" || p.Frozen {
		t.Errorf("program = %+v, want no cgroup and not frozen", p)
	}
	for _, names := range [][]string{nil, {"batch"}} {
		if err := c.Freeze(testDeadline(t), names...); !errors.Is(err, ErrNoCgroup) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Freeze: error %v, want ErrNoCgroup", err)
		}
	}
	r.checkEcho("still here")
	if _, err := Make(testDeadline(t), Spec{Dir: filepath.Join(t.TempDir(), "c"), Hostname: "cap", Cgroups: "/proc"}); err == nil ||
		!strings.Contains(err.Error(), "cgroups: /proc: not a cgroup v2 hierarchy") {
		t.Errorf("Make with /proc for the hierarchy: error %v", err)
	}
}

func TestCgroupIn(t *testing.T) {
	for _, k := range []struct{ in, want string }{
		{"0::/\n", "/"},
		{"9:name=systemd:/\n4:memory:/x\n0::/system.slice/s1 0::/y\n", "/system.slice/s1 0::/y"},
		{"1:cpu:/\n", ""},
		{"0::/../elsewhere\n", ""},
		{"0::/a (deleted)\n", ""},
		{"0::\n", ""},
		{"", ""},
	} {
		got, err := cgroupIn([]byte(k.in))
		if got != k.want || (err == nil) != (k.want != "") {
			t.Errorf("cgroupIn(%q) = %q, %v", k.in, got, err)
		}
	}
}
