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
	"strings"
	"syscall"
	"testing"
	"time"
)

// family is a program that starts a daemon of each kind and then answers lines.
const family = `
(setsid bash -c 'trap "" TERM HUP INT; sleep 1001; :' &)
( ( (setsid setsid sleep 1002 &) & ) & )
nohup sleep 1003 >/dev/null 2>&1 &
env -i setsid --fork sleep 1004
echo ready; while read -r line; do echo "$line"; done; exit 3`

// bothWays runs a test twice: in a capsule where programs have cgroups, and in a capsule without cgroups.
func bothWays(t *testing.T, f func(*testing.T, *Capsule)) {
	needRoot(t)
	t.Run("cgroup", func(t *testing.T) { f(t, newCapsule(t)) })
	t.Run("no cgroup", func(t *testing.T) { f(t, newCapsule(t, func(s *Spec) { s.Cgroups = "" })) })
}

// checkEcho checks that a program answers.
func (r *running) checkEcho(word string) {
	r.t.Helper()
	fmt.Fprintln(r.in, word)
	r.out.expectLine(word)
}

func TestWardenKilled(t *testing.T) { bothWays(t, wardenKilled) }

func wardenKilled(t *testing.T, c *Capsule) {
	doomed, other := task{c: c, name: "0.0", argv: shellCommand(strings.ReplaceAll(family, "sleep 1", "sleep 7"))}.startTask(t), task{c: c, name: "0.1", argv: shellCommand(family)}.startTask(t)
	doomed.out.expectLine("ready")
	other.out.expectLine("ready")
	e := watchEvents(t, c)
	e.waitForProgram("0.0")
	doomed.sendSignal(syscall.SIGKILL)
	if status := doomed.waitForEnd(); status != syscall.WaitStatus(syscall.SIGKILL) {
		t.Errorf("status of the killed program = %#x, want death by SIGKILL", int(status))
	}
	if rest := doomed.out.readToEnd(); len(rest) != 0 { // no process holds the program's output open any more
		t.Errorf("more output: %q", rest)
	}
	e.nextEvent(Ended)
	other.checkEcho("still here")
	for _, pid := range listMembers(t, ownNamespaces(c)) {
		if argv, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.Contains(string(argv), "sleep\x007") {
			t.Errorf("%q is left", argv)
		}
	}
	other.in.Close()
	if status := other.waitForEnd(); status != 3<<8 {
		t.Errorf("the other's status %#x", int(status))
	}
}

// TestLeftovers: no process of a program outlives the program. Otherwise the step would not end.
func TestLeftovers(t *testing.T) { bothWays(t, checkLeftovers) }

func checkLeftovers(t *testing.T, c *Capsule) {
	r := task{c: c, argv: shellCommand(family)}.startTask(t)
	r.out.expectLine("ready")
	r.in.Close()
	if status := r.waitForEnd(); status != 3<<8 {
		t.Errorf("status of the program = %#x, want exit code 3", int(status))
	}
	if rest := r.out.readToEnd(); len(rest) != 0 {
		t.Errorf("more output: %q", rest)
	}
	if all := listMembers(t, ownNamespaces(c)); len(all) != 1 {
		t.Errorf("processes %v are left beside init", all)
	}
}

// TestStewardKilled: a user may kill the steward of his own program. Slurm sees a task that was killed.
func TestStewardKilled(t *testing.T) { bothWays(t, stewardKilled) }

func stewardKilled(t *testing.T, c *Capsule) {
	r := task{c: c, argv: shellCommand("sleep 1000 & echo ready; read -r line; kill -9 $PPID; sleep 1001")}.startTask(t)
	r.out.expectLine("ready")
	fmt.Fprintln(r.in)
	if status := r.waitForEnd(); status != syscall.WaitStatus(syscall.SIGKILL) {
		t.Errorf("status of the program = %#x, want death by SIGKILL", int(status))
	}
	r.out.readToEnd()
}

func TestCaptured(t *testing.T) { bothWays(t, checkCaptured) }

func checkCaptured(t *testing.T, c *Capsule) {
	ctx := testDeadline(t)
	e := watchEvents(t, c)
	start := func(name, script string) *running {
		r := task{c: c, name: name, argv: shellCommand(script)}.startTask(t)
		r.out.expectLine("ready")
		e.waitForProgram(name)
		if err := c.MarkCaptured(ctx, name); err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("survives its warden until it is unmarked", func(t *testing.T) {
		// Its standard input ends with its warden.
		r := start("a", `trap 'echo alive' USR1; echo ready; while :; do sleep 0.05; done`)
		r.sendSignal(syscall.SIGKILL)
		r.waitForEnd()
		e.nextEvent(Left)
		if err := c.Signal(ctx, "a", syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		r.out.expectLine("alive")
		if p := programNamed(t, c, "a"); p.Warden || !p.Captured {
			t.Errorf("program = %+v, want it captured, without a warden", p)
		}
		if err := c.Unmark(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		r.out.readToEnd()
		e.nextEvent(Ended)
	})
	t.Run("its warden stays until Slurm ends it", func(t *testing.T) {
		r := start("b", family)
		if err := c.Signal(ctx, "b", syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if ev := e.nextEvent(Captured); !ev.Program.Warden || ev.Program.Status != syscall.WaitStatus(syscall.SIGKILL) {
			t.Errorf("event %v, want the warden and death by SIGKILL", ev)
		}
		r.out.readToEnd()
		r.sendSignal(syscall.SIGCONT)
		r.sendSignal(syscall.SIGTERM)
		if status := r.waitForEnd(); status != syscall.WaitStatus(syscall.SIGTERM) {
			t.Errorf("status of the warden = %#x, want death by SIGTERM", int(status))
		}
		e.nextEvent(Left)
		if err := c.Release(ctx, "b", 0); err != nil {
			t.Error(err)
		}
		e.nextEvent(Ended)
	})
	t.Run("its warden ends as released", func(t *testing.T) {
		r := start("c", family)
		if err := c.Release(ctx, "c", 0); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("released while it runs: %v", err)
		}
		if err := c.Signal(ctx, "c", syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		e.nextEvent(Captured)
		if err := c.Release(ctx, "c", 0); err != nil {
			t.Error(err)
		}
		if status := r.waitForEnd(); status != 0 {
			t.Errorf("status of the warden = %#x, want 0", int(status))
		}
	})
	becomesEmpty(t, c) // init may not have reaped the dead processes yet
}

func TestInitKilled(t *testing.T) {
	c := newCapsule(t)
	r := task{c: c, argv: shellCommand(family)}.startTask(t)
	r.out.expectLine("ready")
	if err := c.Kill(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if status := r.waitForEnd(); status != syscall.WaitStatus(syscall.SIGKILL) {
		t.Errorf("status of the task = %#x, want death by SIGKILL", int(status))
	}
	if _, err := c.Programs(testDeadline(t)); !errors.Is(err, ErrStale) {
		t.Errorf("Programs: %v, want ErrStale", err)
	}
	if _, err := c.Namespaces(); !errors.Is(err, ErrStale) {
		t.Errorf("Namespaces: %v, want ErrStale", err)
	}
	if _, err := Adopt(testDeadline(t), c.Dir()); !errors.Is(err, ErrStale) {
		t.Errorf("Adopt: %v, want ErrStale", err)
	}
}

// makeAndWait returns a maker that the test kills: its arguments are DIR, or DIR hang.
func makeAndWait(args []string) int {
	s := Spec{Dir: args[0], Hostname: "orphan", Owner: user}
	if len(args) > 1 {
		s.Network = func(pid int) error {
			fmt.Fprintln(os.Stdout, pid)
			select {}
		}
	}
	if _, err := Make(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "made")
	select {}
}

func startMaker(t *testing.T, args ...string) (*exec.Cmd, *lines) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", append([]string{makerArg}, args...)...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { r.Close() })
	return cmd, newLines(t, r)
}

func TestMakerKilled(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30), "capsule")
	t.Cleanup(func() {
		if err := Discard(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	cmd, out := startMaker(t, dir)
	out.expectLine("made")
	c, err := Adopt(testDeadline(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	r := task{c: c, argv: shellCommand(family)}.startTask(t)
	r.out.expectLine("ready")
	if err := c.MarkCaptured(testDeadline(t), "batch"); err != nil {
		t.Error(err)
	}
	c.Close()
	cmd.Process.Kill()
	cmd.Wait()
	if c, err = Adopt(testDeadline(t), dir); err != nil {
		t.Fatal(err)
	}
	r.checkEcho("alive")
	if p := programNamed(t, c, "batch"); !p.Captured || p.HostPID == 0 {
		t.Errorf("adopted program = %+v, want it captured and running", p)
	}
	if err := c.Unmark(testDeadline(t), "batch"); err != nil {
		t.Error(err)
	}
	r.in.Close()
	if status := r.waitForEnd(); status != 3<<8 {
		t.Errorf("status of the program = %#x, want exit code 3", int(status))
	}
	if _, err := Make(testDeadline(t), Spec{Dir: dir, Hostname: "second"}); !errors.Is(err, ErrExists) {
		t.Errorf("Make in a folder that has one: %v", err)
	}
	if err := c.Remove(testDeadline(t)); err != nil {
		t.Error(err)
	}
}

func TestMakerKilledWhileMaking(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "capsule")
	cmd, out := startMaker(t, dir, "hang")
	line, _ := out.nextLine()
	var pid int
	if fmt.Sscan(line, &pid); pid == 0 {
		t.Fatalf("the maker printed %q, want the PID of init", line)
	}
	init, err := openPidfd(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer init.close()
	cmd.Process.Kill()
	cmd.Wait()
	if err := init.wait(testDeadline(t)); err != nil {
		t.Fatal("init outlives a maker that had not let it go: ", err)
	}
	if _, err := Adopt(testDeadline(t), dir); !errors.Is(err, ErrStale) {
		t.Errorf("Adopt: error %v, want ErrStale", err)
	}
	if err := Discard(testDeadline(t), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat of the capsule's folder: error %v, want that it does not exist", err)
	}
}

// TestMakeFails: a capsule that cannot be made leaves no process and no file behind, and the error has the reason.
func TestMakeFails(t *testing.T) {
	needRoot(t)
	refused := errors.New("no network")
	for _, k := range []struct {
		name string
		spec Spec
		want string
	}{
		{"relative folder", Spec{Dir: "x"}, `want an absolute path`},
		{"missing source", Spec{Binds: []Bind{{Source: "/no/such", Target: "/mnt"}}}, "capsule cap: build: mounts: /no/such: no such file or directory"},
		{"network", Spec{Network: func(int) error { return refused }}, "capsule cap: network: no network"},
		{"no eth0", Spec{Address: "10.88.1.1/32"}, "capsule cap: go: eth0: Link not found"},
		{"long name", Spec{Hostname: strings.Repeat("x", 70)}, ": build: host name: invalid argument"},
	} {
		t.Run(k.name, func(t *testing.T) {
			s := k.spec
			if s.Dir == "" {
				s.Dir = filepath.Join(t.TempDir(), "capsule")
			}
			if s.Hostname == "" {
				s.Hostname = "cap"
			}
			_, err := Make(testDeadline(t), s)
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("got %v, want %q", err, k.want)
			}
			if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("stat of the capsule's folder: error %v, want that it does not exist", err)
			}
		})
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	mounts := func() string {
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	needRoot(t)
	before := mounts()
	c := newCapsule(t)
	r := task{c: c, argv: shellCommand(`mkdir -p /tmp/deep/er; touch /tmp/deep/er/file; mkdir /tmp/locked; chmod 0 /tmp/locked; ` + family)}.startTask(t)
	r.out.expectLine("ready")
	ns := ownNamespaces(c)
	if len(ns) < 5 {
		t.Fatalf("namespaces of the capsule = %v, want at least 5", ns)
	}
	if len(listMembers(t, ns)) < 4 { // init, warden, steward, shell; the daemons start at any time
		t.Errorf("processes of the capsule = %v, want at least 4", listMembers(t, ns))
	}
	if err := c.Remove(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	r.waitForEnd()
	if left := listMembers(t, ns); len(left) != 0 {
		t.Errorf("processes left = %v, want no process", left)
	}
	if after := mounts(); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
	if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat of the capsule's folder: error %v, want that it does not exist", err)
	}
}

func TestMany(t *testing.T) {
	needRoot(t)
	const n = 50
	dir := t.TempDir()
	errs := make(chan error)
	for i := range n {
		go func() {
			ctx := context.Background()
			c, err := Make(ctx, Spec{Dir: fmt.Sprintf("%s/%d", dir, i), Hostname: fmt.Sprintf("cap%d", i), Owner: user})
			if err == nil {
				out, _, status := task{c: c, argv: []string{"hostname"}}.runTask(t)
				if out != fmt.Sprintf("cap%d\n", i) || status != 0 {
					err = fmt.Errorf("capsule %d: %q, status %#x", i, out, int(status))
				}
				err = errors.Join(err, c.Remove(ctx))
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if names, err := readNames(dir); err != nil || len(names) != 0 {
		t.Errorf("files left = %v, error %v, want no file", names, err)
	}
}

func BenchmarkMake(b *testing.B) {
	needRoot(b)
	dir := b.TempDir()
	for i := range b.N {
		c, err := Make(context.Background(), Spec{Dir: fmt.Sprintf("%s/%d", dir, i), Hostname: "bench", Owner: user})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.Remove(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkProgram and BenchmarkPlain run `true` as a task, in a capsule and without.
func BenchmarkProgram(b *testing.B) { benchmarkTask(b, task{c: newCapsule(b), argv: []string{"true"}}) }
func BenchmarkPlain(b *testing.B)   { needRoot(b); benchmarkTask(b, task{argv: []string{"true"}}) }

func benchmarkTask(b *testing.B, k task) {
	for b.Loop() {
		if _, stderr, status := k.runTask(b); status != 0 {
			b.Fatal(stderr)
		}
	}
}

// TestWardenKilledAnytime: a warden may be killed at any instruction. No process of the warden's program is left then.
func TestWardenKilledAnytime(t *testing.T) { bothWays(t, wardenKilledAnytime) }

func wardenKilledAnytime(t *testing.T, c *Capsule) {
	kills := 100
	if testing.Short() {
		kills = 20
	}
	for k := range kills {
		i := k * 100 / kills
		cmd := task{c: c, name: fmt.Sprint("p", i), argv: []string{"sleep", "1000"}}.taskCommand(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 100 * time.Microsecond) // the test tries different moments
		cmd.Process.Kill()
		cmd.Wait()
	}
	becomesEmpty(t, c)
}
