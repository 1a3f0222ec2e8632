// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// counting counts in two processes, one of them a daemon that has lost its parent.
const counting = `
mkfifo /tmp/in /tmp/out
(setsid bash -c 'exec 3<>/tmp/in 4<>/tmp/out; m=100; while read -r line <&3; do echo "$line $((++m))" >&4; done' &)
exec 3<>/tmp/in 4<>/tmp/out; n=0; echo ready
while read -r line; do echo "$line" >&3; read -r d <&4; echo "$((++n)) $d"; done
exit 3`

// TestCRIU captures a program of one capsule and restores it in another. On a machine
// where CRIU does not work it can be run in a cluster's host:
//
//	go test -c -o DIR/capsule.test ./proxyd/capsule
//	make -C slurm-spank/warden O=DIR && cc -o DIR/enter proxyd/capsule/testdata/enter.c
//	minicluster up --suite forky --name cap-a    # DIR is below /var/lib/minicluster/cap-a/shared
//	minicluster exec n1 --name cap-a -- env CAPSULE_TOOLS=DIR DIR/capsule.test -test.v
func TestCRIU(t *testing.T) {
	needRoot(t)
	version, err := exec.Command("criu", "--version").Output()
	if err != nil {
		t.Skip("SKIP: needs criu 4.2: ", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(version), "Version: %d.%d", &major, &minor); err != nil || major*100+minor < 402 {
		t.Skipf("SKIP: needs criu 4.2, found %q", version)
	}
	if out, err := exec.Command("criu", "check").CombinedOutput(); err != nil { // leaves what it found in /run/criu.kdat
		t.Fatalf("criu check: %s", out)
	}
	ctx := deadline(t)
	images := filepath.Join(tools.dir, "images")
	if err := os.MkdirAll(images, 0o700); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()

	one := newCapsule(t)
	r := task{c: one, argv: shell(counting), err: null}.start(t)
	r.out.expect("ready")
	e := watch(t, one)
	e.seen("batch")
	ask := func(r *running, word, want string) {
		t.Helper()
		fmt.Fprintln(r.in, word)
		if got, _ := r.out.next(); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	ask(r, "a", "1 a 101")
	p := with(t, one, "batch")
	pipes := pipesOf(t, hostPID(t, one, p.First))
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
	criu(t, one, nil, "setpriv", "--ruid", fmt.Sprint(user), "--rgid", fmt.Sprint(user), "--keep-groups",
		"criu", "dump", "-t", fmt.Sprint(p.PID), "-D", images, "-o", "dump.log", "--network-lock", "skip", "--tcp-established")
	if ev := e.next(Captured); !ev.Program.Warden {
		t.Error("its warden is gone")
	}
	if err := one.Release(ctx, "batch", 0); err != nil {
		t.Error(err)
	}
	if status := r.wait(); status != 0 {
		t.Errorf("the first warden's status is %#x", int(status))
	}
	dir := filepath.Join(t.TempDir(), "capsule")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", one.Dir()+"/tmp", dir).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	if err := one.Remove(ctx); err != nil {
		t.Fatal(err)
	}

	two := newCapsule(t, func(s *Spec) { s.Dir, s.Restore, s.Clocks = dir, true, &clocks })
	e = watch(t, two)
	r = task{c: two, options: []string{"--restore"}, err: null}.start(t)
	e.next(Waiting)
	stdio, err := two.Stdio(ctx, "batch")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"criu", "restore", "-d", "-D", images, "-o", "restore.log", "--tcp-established"}
	for fd, pipe := range pipes {
		args = append(args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", 3+fd, pipe))
	}
	criu(t, two, stdio, args...)
	closeAll(stdio)
	if err := two.Restored(ctx, "batch", p.PID, p.First); err != nil {
		t.Fatal(err)
	}
	if err := two.LoadLastPID(ctx, last); err != nil {
		t.Error(err)
	}
	ask(r, "b", "2 b 102")
	if q := with(t, two, "batch"); q.PID != p.PID || q.First != p.First || !q.Warden {
		t.Errorf("program %+v, was %+v", q, p)
	}
	if now, err := two.Clocks(ctx); err != nil || now.Monotonic < clocks.Monotonic || now.Boottime < clocks.Boottime {
		t.Errorf("clocks were %+v, are %+v, %v", clocks, now, err)
	}
	r.in.Close()
	if status := r.wait(); status != 3<<8 {
		t.Errorf("status %#x", int(status))
	}
	if rest := r.out.end(); len(rest) > 0 {
		t.Errorf("more output: %q", rest)
	}
	becomesEmpty(t, two)
}

// criu runs a command in c's namespaces, where it finds ordinary processes and nothing
// that is external.
func criu(t *testing.T, c *Capsule, files []*os.File, args ...string) {
	t.Helper()
	init := fmt.Sprintf("/proc/%d/ns/", c.PID())
	cmd := exec.Command("nsenter", append([]string{"--mount=" + init + "mnt", "--net=" + init + "net", "--uts=" + init + "uts",
		"--ipc=" + init + "ipc", "--pid=" + init + "pid", "--time=" + init + "time_for_children"}, args...)...)
	cmd.ExtraFiles = files
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := exec.Command("sh", "-c", "grep -h Error "+filepath.Join(tools.dir, "images")+"/*.log").Output()
		t.Fatalf("%v: %v\n%s%s", strings.Join(args, " "), err, out, log)
	}
}

// pipesOf returns what CRIU calls those of a process's descriptors 0 and 1 that are
// pipes.
func pipesOf(t *testing.T, pid int) map[int]string {
	t.Helper()
	found := map[int]string{}
	for fd := range 2 {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`^pipe:\[\d+\]$`).MatchString(link) {
			found[fd] = link
		}
	}
	return found
}
