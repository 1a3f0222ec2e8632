// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newCgroup makes a cgroup that later capsules see.
func newCgroup(t testing.TB) cgroup {
	t.Helper()
	root := filepath.Join(workDir(t), "cgroup")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		t.Skip("SKIP: needs cgroup v2: ", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	g := filepath.Join(root, fmt.Sprintf("criu-test-%d", os.Getpid()), "program")
	if err := os.MkdirAll(g, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.WriteFile(filepath.Join(g, "cgroup.kill"), []byte("1"), 0)
		waitFor(t, func() bool { return unix.Rmdir(g) != unix.EBUSY })
		os.Remove(filepath.Dir(g))
	})
	return cgroup(g)
}

func (g cgroup) putProcess(t testing.TB, r *running) {
	t.Helper()
	members, err := listMembers(r.program.Init)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range findDescendants(members, []int{r.program.PID}) {
		if err := os.WriteFile(g.filePath("cgroup.procs"), fmt.Append(nil, m.host), 0); err != nil {
			t.Fatal(err)
		}
	}
	r.program.Cgroup = string(g)
}

func (g cgroup) standsStill(t testing.TB) bool {
	t.Helper()
	return strings.Contains(readFile(t, g.filePath("cgroup.events")), "frozen 1")
}

func TestCgroup(t *testing.T) {
	needCRIU(t)
	for name, frozen := range map[string]bool{"frozen": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			ctx := testDeadline(t)
			g := newCgroup(t)
			c := newCapsule(t)
			r := c.runBash(counting)
			r.expectLine("ready")
			g.putProcess(t, r)
			if frozen {
				if err := g.setFrozen(ctx, true); err != nil {
					t.Fatal(err)
				}
				r.writeLine("a")
			}
			dir := newImageFolder(t)
			img := dumpProgram(t, r.program, dir)
			if on, err := g.isFrozen(); err != nil || on != frozen || g.standsStill(t) != frozen {
				t.Errorf("after the dump: %v, %v; %s", on, err, readFile(t, g.filePath("cgroup.events")))
			}
			if frozen {
				if err := g.setFrozen(ctx, false); err != nil {
					t.Fatal(err)
				}
				r.expectLine("1 a 101") // the line had not been read
				r.askAndExpect("b", "2 b 102")
			} else {
				r.askAndExpect("b", "1 b 101")
			}
			c.endCapsule()

			g = newCgroup(t)
			c = newCapsule(t)
			if frozen {
				if err := g.setFrozen(ctx, true); err != nil {
					t.Fatal(err)
				}
			}
			r = makePipes(t)
			if err := Restore(ctx, img, Program{Init: c.initPID(), Cgroup: string(g)}, r.far, dir); err != nil {
				explainTo(t, err)
				t.Fatal(err)
			}
			r.closeFar()
			if on, err := g.isFrozen(); err != nil || on != frozen || g.standsStill(t) != frozen {
				t.Errorf("after the restore: %v, %v; %s", on, err, readFile(t, g.filePath("cgroup.events")))
			}
			if n := len(strings.Fields(readFile(t, g.filePath("cgroup.procs")))); n != 2 {
				t.Errorf("%d processes in the cgroup", n)
			}
			if frozen {
				r.outFile.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				if s, err := r.out.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("frozen, it says %q, %v", s, err)
				}
				r.outFile.SetReadDeadline(time.Now().Add(60 * time.Second))
				if err := g.setFrozen(ctx, false); err != nil {
					t.Fatal(err)
				}
				r.expectLine("1 a 101") // was in the pipe
			}
			r.askAndExpect("c", fmt.Sprintf("%d c %d", 1+boolToInt(frozen), 101+boolToInt(frozen)))
		})
	}
}

// TestRestoreOfKilledDaemon: a daemon was killed after the restore of a program, and before reporting the restore. Its
// successor restores the program again.
func TestRestoreOfKilledDaemon(t *testing.T) {
	needCRIU(t)
	ctx := testDeadline(t)
	img, dir := dumpCounting(t)

	g := newCgroup(t)
	c := newCapsule(t)
	if err := g.setFrozen(ctx, true); err != nil {
		t.Fatal(err)
	}
	var r *running
	for range 2 {
		r = makePipes(t)
		if err := Restore(ctx, img, Program{Init: c.initPID(), Cgroup: string(g)}, r.far, dir); err != nil {
			explainTo(t, err)
			t.Fatal(err)
		}
		r.closeFar()
		if !g.standsStill(t) {
			t.Error("the program runs")
		}
	}
	if n := len(strings.Fields(readFile(t, g.filePath("cgroup.procs")))); n != 2 {
		t.Errorf("%d processes in the cgroup", n)
	}
	if err := g.setFrozen(ctx, false); err != nil {
		t.Fatal(err)
	}
	r.askAndExpect("b", "1 b 101")
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// damaged is a source with changed bytes.
type damaged struct {
	Source
	open func(name string, r io.ReadCloser) (io.ReadCloser, error)
}

func (d damaged) Open(name string) (io.ReadCloser, error) {
	r, err := d.Source.Open(name)
	if err != nil {
		return nil, err
	}
	return d.open(name, r)
}

type readCloser struct {
	io.Reader
	io.Closer
}

var errSource = errors.New("the source is broken")

// failAfter fails after n bytes.
func failAfter(r io.ReadCloser, n int64) io.ReadCloser {
	return readCloser{io.MultiReader(io.LimitReader(r, n), broken{}), r}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errSource }

// TestHostileSource: a restore from a source that is broken in any way fails with the reason, and leaves no process and
// no thawed cgroup.
func TestHostileSource(t *testing.T) {
	needCRIU(t)
	g := newCgroup(t)
	img, dir := dumpCounting(t)

	type test struct {
		src  Source
		want error
	}
	tests := map[string]test{}
	for _, f := range img.Files {
		one := func(open func(r io.ReadCloser) (io.ReadCloser, error)) Source {
			return damaged{dir, func(name string, r io.ReadCloser) (io.ReadCloser, error) {
				if name != f.Name {
					return r, nil
				}
				return open(r)
			}}
		}
		tests[f.Name+" fails"] = test{one(func(r io.ReadCloser) (io.ReadCloser, error) { return failAfter(r, f.Size/2), nil }), errSource}
		tests[f.Name+" cannot be opened"] = test{one(func(r io.ReadCloser) (io.ReadCloser, error) { return nil, errSource }), errSource}
		tests[f.Name+" is missing"] = test{one(func(r io.ReadCloser) (io.ReadCloser, error) { return nil, fs.ErrNotExist }), fs.ErrNotExist}
		tests[f.Name+" is short"] = test{one(func(r io.ReadCloser) (io.ReadCloser, error) {
			return readCloser{io.LimitReader(r, f.Size-1), r}, nil
		}), nil}
		tests[f.Name+" has other bytes"] = test{one(func(r io.ReadCloser) (io.ReadCloser, error) {
			return readCloser{scrambled{r}, r}, nil
		}), nil}
	}
	seen := map[string]bool{}
	for _, name := range []string{"inventory.img", "pstree.img", "files.img", "pages-1.img", "pages-2.img", fmt.Sprintf("core-%d.img", img.Program.PID), fmt.Sprintf("mm-%d.img", img.Processes[1].PID), "pipes-data.img"} {
		if _, ok := img.findFile(name); !ok {
			t.Errorf("no image %s among %v", name, img.Files)
		}
		seen[name] = true
	}
	c := newCapsule(t)
	for name, test := range tests {
		image, kind, _ := strings.Cut(name, " ")
		if !seen[image] || strings.HasPrefix(image, "pages") && kind == "has other bytes" { // damaged pages show by a hash only
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := makePipes(t)
			if err := g.setFrozen(testDeadline(t), true); err != nil {
				t.Fatal(err)
			}
			err := Restore(testDeadline(t), img, Program{Init: c.initPID(), Cgroup: string(g)}, r.far, test.src)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			checkAlone(t, c)
			if on, err := g.isFrozen(); err != nil || !on {
				t.Errorf("the cgroup is not frozen (%v)", err)
			}
			t.Log(err)
		})
	}
	// The capsule is as it was before the restores.
	if err := g.setFrozen(testDeadline(t), false); err != nil {
		t.Fatal(err)
	}
	r := c.restoreImage(img, dir)
	r.askAndExpect("z", "1 z 101")
}

// scrambled inverts bytes, but not those of a header.
type scrambled struct{ r io.Reader }

func (s scrambled) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	for i := 9; i < n; i += 3 {
		b[i] ^= 0x55
	}
	return n, err
}

// checkAlone checks that a capsule has no process but init.
func checkAlone(t testing.TB, c *capsule) {
	t.Helper()
	members, err := listMembers(c.initPID())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.pid != 1 && !m.zombie {
			t.Errorf("process %+v is left in the capsule, want init alone", m)
		}
	}
}

// TestCancelRestore: whenever the context ends, either the restore is complete or no process of it is left.
func TestCancelRestore(t *testing.T) {
	needCRIU(t)
	img, dir := dumpCounting(t)
	c := newCapsule(t)
	begin := time.Now()
	c.restoreImage(img, dir)
	usual := time.Since(begin)
	if err := killProcesses(testDeadline(t), c.initPID(), img.listPIDs()); err != nil {
		t.Fatal(err)
	}
	done := 0
	for i := range 40 {
		r := makePipes(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*usual/30)
		err := Restore(ctx, img, Program{Init: c.initPID()}, r.far, dir)
		cancel()
		switch {
		case err == nil:
			done++
			r.closeFar()
			r.askAndExpect("a", "1 a 101")
			if err := killProcesses(testDeadline(t), c.initPID(), img.listPIDs()); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatal(err)
		}
		checkAlone(t, c)
	}
	t.Logf("%d of 40 were done in time", done)
}

// TestKillProcesses: the processes in a cgroup are killed, and a process of the same session outside is not.
func TestKillProcesses(t *testing.T) {
	g := newCgroup(t)
	inside, outside := exec.Command("sleep", "inf"), exec.Command("sleep", "inf")
	for _, c := range []*exec.Cmd{inside, outside} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	}
	if err := g.moveIn(inside.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := g.killProcesses(); err != nil {
		t.Fatal(err)
	}
	if err := inside.Wait(); err == nil || inside.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("process in the cgroup: %v, want killed", err)
	}
	if pid, err := unix.Wait4(outside.Process.Pid, nil, unix.WNOHANG, nil); pid != 0 || err != nil {
		t.Errorf("Wait4 of the process outside = %d, %v, want 0: it still runs", pid, err)
	}
	if all, err := g.listProcesses(); err != nil || len(all) != 0 {
		t.Errorf("processes left in the cgroup = %v, %v, want no process", all, err)
	}
}
