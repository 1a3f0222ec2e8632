// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// counting is a program that counts in two processes. The second process is a daemon: its parent has ended.
const counting = `
mkfifo /tmp/in /tmp/out
(setsid bash -c 'exec 3<>/tmp/in 4<>/tmp/out; m=100; while read -r line <&3; do echo "$line $((++m))" >&4; done' &)
exec 3<>/tmp/in 4<>/tmp/out; n=0; echo ready
while read -r line; do echo "$line" >&3; read -r d <&4; echo "$((++n)) $d"; done
exit 3`

// needCRIU skips a test on a machine where CRIU does not work. tests/cluster runs these tests on a host of a
// cluster.
func needCRIU(t *testing.T) {
	t.Helper()
	needRoot(t)
	version, err := exec.Command("criu", "--version").Output()
	if err != nil {
		t.Skip("SKIP: needs criu 4.2: ", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(version), "Version: %d.%d", &major, &minor); err != nil || major*100+minor < 402 {
		t.Skipf("SKIP: needs criu 4.2, found %q", version)
	}
	if out, err := exec.Command("criu", "check").CombinedOutput(); err != nil { // writes /run/criu.kdat
		t.Fatalf("criu check: %s", out)
	}
}

// makeImages makes a folder for images that capsules can see, too.
func makeImages(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(tools.dir, "images-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// dumpProgram dumps a program. Without CAP_SYS_RESOURCE, criu must have the program's real user: no other user can
// read the program's limits.
func dumpProgram(t *testing.T, c *Capsule, p Program, images string, options ...string) {
	t.Helper()
	runCriu(t, c, "", nil, append([]string{"setpriv", "--ruid", fmt.Sprint(user), "--rgid", fmt.Sprint(user), "--keep-groups",
		"criu", "dump", "-t", fmt.Sprint(p.PID), "-D", images, "-o", "dump.log", "--network-lock", "skip", "--tcp-established", "--manage-cgroups=ignore"}, options...)...)
}

// restoreProgram restores a program for the warden that waits in c. was describes the program at the dump.
func restoreProgram(t *testing.T, c *Capsule, was Program, images string) {
	t.Helper()
	ctx := testDeadline(t)
	stdio, err := c.Stdio(ctx, was.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer localsock.CloseAll(stdio)
	args := []string{"criu", "restore", "-d", "-D", images, "-o", "restore.log", "--tcp-established", "--manage-cgroups=ignore"}
	for fd, link := range was.Stdio {
		if strings.HasPrefix(link, "pipe:[") {
			args = append(args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", 3+fd, link))
		}
	}
	runCriu(t, c, programNamed(t, c, was.Name).Cgroup, stdio, args...)
	if err := c.Restored(ctx, was.Name, was.PID, was.First); err != nil {
		t.Fatal(err)
	}
}

// TestCRIU captures a program of a single capsule and restores the program in another capsule.
func TestCRIU(t *testing.T) {
	needCRIU(t)
	ctx := testDeadline(t)
	images, null := makeImages(t), devNull(t)
	one := newCapsule(t)
	r := task{c: one, argv: shellCommand(counting), err: null}.startTask(t)
	r.out.expectLine("ready")
	e := watchEvents(t, one)
	e.waitForProgram("batch")
	ask := func(r *running, word, want string) {
		t.Helper()
		fmt.Fprintln(r.in, word)
		if got, _ := r.out.nextLine(); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	ask(r, "a", "1 a 101")
	p := programNamed(t, one, "batch")
	if err := one.MarkCaptured(ctx, "batch"); err != nil {
		t.Fatal(err)
	}
	last, err := one.LastPID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clocks, err := one.Clocks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dumpProgram(t, one, p, images)
	if ev := e.nextEvent(Captured); !ev.Program.Warden {
		t.Error("its warden is gone")
	}
	if err := one.Release(ctx, "batch", 0); err != nil {
		t.Error(err)
	}
	if status := r.waitForEnd(); status != 0 {
		t.Errorf("the first warden's status is %#x", int(status))
	}
	dir := filepath.Join(t.TempDir(), "capsule")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", one.Dir()+"/tmp", dir).CombinedOutput(); err != nil {
		t.Fatalf("cp of /tmp: %v", string(out))
	}
	if err := one.Remove(ctx); err != nil {
		t.Fatal(err)
	}

	two := newCapsule(t, func(s *Spec) { s.Dir, s.Restore, s.Clocks = dir, true, &clocks })
	e = watchEvents(t, two)
	r = task{c: two, options: []string{"--restore"}, err: null}.startTask(t)
	e.nextEvent(Waiting)
	restoreProgram(t, two, p, images)
	if err := two.LoadLastPID(ctx, last); err != nil {
		t.Error(err)
	}
	ask(r, "b", "2 b 102")
	if q := programNamed(t, two, "batch"); q.PID != p.PID || q.First != p.First || !q.Warden || !strings.HasPrefix(q.Stdio[0], "pipe:[") || q.Stdio == p.Stdio {
		t.Errorf("program %+v, was %+v", q, p)
	}
	if now, err := two.Clocks(ctx); err != nil || now.Monotonic < clocks.Monotonic || now.Boottime < clocks.Boottime {
		t.Errorf("clocks were %+v, are %+v, %v", clocks, now, err)
	}
	r.in.Close()
	if status := r.waitForEnd(); status != 3<<8 {
		t.Errorf("status of the restored program = %#x, want exit code 3", int(status))
	}
	if rest := r.out.readToEnd(); len(rest) > 0 {
		t.Errorf("more output: %q", rest)
	}
	becomesEmpty(t, two)
}

// TestCRIUFrozen: a frozen program is dumped, stays frozen and goes on, any number of times. The same images
// of a batch script that only the capsule has are restored on a node where slurmd has another script at that
// path.
func TestCRIUFrozen(t *testing.T) {
	needCRIU(t)
	ctx := testDeadline(t)
	s := newSpool(t)
	saved := filepath.Join(tools.dir, "counts")
	if err := os.WriteFile(saved, []byte("#!/bin/bash\n"+counting), 0o755); err != nil {
		t.Fatal(err)
	}
	script := Bind{Source: saved, Target: s.script, ReadOnly: true, Alone: true}
	s.writeScript(t, "#!/bin/sh\n: the job's, from slurmd\n")
	one := newCapsule(t, func(spec *Spec) { spec.Binds = []Bind{script} })
	r := task{c: one, argv: []string{s.script}, err: devNull(t)}.startTask(t)
	r.out.expectLine("ready")
	e := watchEvents(t, one)
	p := e.waitForProgram("batch")
	n := 0
	counts := func() {
		t.Helper()
		n++
		r.echoesAs("x", fmt.Sprintf("%d x %d", n, 100+n))
	}
	counts()
	s.removeScript(t) // the capsule does not notice
	for range 3 {
		if err := one.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		dumpProgram(t, one, p, makeImages(t), "--freeze-cgroup", p.Cgroup, "--leave-running")
		if q := programNamed(t, one, "batch"); !q.Frozen || q.HostPID == 0 {
			t.Errorf("after a dump: %+v", q)
		}
		g := group(p.Cgroup)
		if err := waits.WaitForCgroupEvent(ctx, string(g), "frozen 1"); err != nil {
			t.Error(err)
		}
		if err := one.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
		counts()
	}
	if err := one.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	images := makeImages(t)
	dumpProgram(t, one, p, images, "--freeze-cgroup", p.Cgroup, "--leave-running")
	last, err := one.LastPID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clocks, err := one.Clocks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(one.MarkCaptured(ctx, "batch"), one.Signal(ctx, "batch", syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	e.nextEvent(Captured) // frozen in its present state
	if err := one.Release(ctx, "batch", 0); err != nil {
		t.Fatal(err)
	}
	r.waitForEnd()
	if rest := r.out.readToEnd(); len(rest) > 0 {
		t.Errorf("more output: %q", rest)
	}
	dir := filepath.Join(t.TempDir(), "capsule")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", one.Dir()+"/tmp", dir).CombinedOutput(); err != nil {
		t.Fatalf("cp of /tmp: %v", string(out))
	}
	if err := one.Remove(ctx); err != nil {
		t.Fatal(err)
	}

	s.writeScript(t, "#!/bin/sh\n: the job's, from slurmd, in its next run\n")
	two := newCapsule(t, func(spec *Spec) { spec.Dir, spec.Restore, spec.Clocks, spec.Binds = dir, true, &clocks, []Bind{script} })
	e = watchEvents(t, two)
	r = task{c: two, options: []string{"--restore"}, err: devNull(t)}.startTask(t)
	e.nextEvent(Waiting)
	restoreProgram(t, two, p, images)
	if err := two.LoadLastPID(ctx, last); err != nil {
		t.Fatal(err)
	}
	counts()
	s.removeScript(t)
	if err := two.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	q := programNamed(t, two, "batch")
	dumpProgram(t, two, q, makeImages(t), "--freeze-cgroup", q.Cgroup, "--leave-running") // a restored program can be captured again
	if err := two.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	counts()
	r.in.Close()
	if status := r.waitForEnd(); status != 3<<8 {
		t.Errorf("status of the restored program = %#x, want exit code 3", int(status))
	}
	becomesEmpty(t, two)
}

// runCriu runs a criu command in c's namespaces, where the program's processes are ordinary processes and no file is
// external. cgroup is the cgroup to run criu in, or "".
func runCriu(t *testing.T, c *Capsule, cgroup string, files []*os.File, args ...string) {
	t.Helper()
	init := fmt.Sprintf("/proc/%d/ns/", c.PID())
	args = append([]string{"nsenter", "--mount=" + init + "mnt", "--net=" + init + "net", "--uts=" + init + "uts",
		"--ipc=" + init + "ipc", "--pid=" + init + "pid", "--time=" + init + "time_for_children"}, args...)
	if cgroup != "" {
		args = append([]string{"sh", "-c", `echo $$ >"$0"; exec "$@"`, group(cgroup).filePath("cgroup.procs")}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.ExtraFiles = files
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := exec.Command("sh", "-c", "tail -n 30 "+tools.dir+"/images-*/*.log").Output()
		t.Fatalf("command %v: %v\n%s%s", strings.Join(args, " "), err, out, log)
	}
}
