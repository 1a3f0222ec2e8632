// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// busy changes all of its memory all the time, by a rule, and checks the rule, in threads and a child; busy answers how
// often it has checked, and which values broke the rule.
const busy = `
import os, threading, signal, mmap, sys
SIZE = 8 << 20; rounds = [0] * 3; wrong = [0] * 3; ticks = [0]
def work(i):
    a = bytearray(SIZE); v = 0
    while True:
        if a.count(bytes([v])) != SIZE: wrong[i] += 1
        v = (v + 1) % 251; a[:] = bytes([v]) * SIZE; rounds[i] += 1
for i in range(2): threading.Thread(target=work, args=(i,), daemon=True).start()
r, w = os.pipe(); r2, w2 = os.pipe()
if os.fork() == 0:
    a = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE); v = 0
    while True:
        b = os.read(r, 1)
        if not b: os._exit(0)
        ok = a[:] == bytes([v]) * SIZE; v = (v + 1) % 251; a[:] = bytes([v]) * SIZE; os.write(w2, b'+' if ok else b'-')
def tick(s, f): ticks[0] += 1
signal.signal(signal.SIGALRM, tick); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
print('ready', flush=True)
while True:
    line = sys.stdin.readline()
    if not line: os._exit(0)
    before = list(rounds[:2]), ticks[0]
    os.write(w, b'?'); child = os.read(r2, 1)
    while any(a == b for a, b in zip(rounds, before[0])) or ticks[0] == before[1]: pass
    print('well' if child == b'+' and not any(wrong) else f'broken {wrong} {child}', flush=True)
`

func startBusy(t *testing.T) (*capsule, *running) {
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", busy)
	r.expectLine("ready")
	r.askAndExpect("?", "well")
	return c, r
}

// runsAsBefore waits until only the program is in c, and asks the program.
func runsAsBefore(t *testing.T, c *capsule, r *running) {
	t.Helper()
	onlyProgram(t, c, r)
	r.outFile.SetReadDeadline(time.Now().Add(time.Minute))
	r.writeLine("?")
	s, err := r.out.ReadString('\n')
	if s != "well\n" {
		showMembers(t, c)
		t.Fatalf("the program answered %q, %v, want well", s, err)
	}
}

// showMembers logs the state of the processes of a capsule.
func showMembers(t *testing.T, c *capsule) {
	t.Helper()
	members, err := listMembers(c.initPID())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		out, _ := exec.Command("sh", "-c", fmt.Sprintf("cd /proc/%d && grep -E 'Name|State|PPid|Sig|ShdPnd|Tracer|NSpid' status; for t in task/*; do echo $t; grep State $t/status; cat $t/syscall $t/wchan; echo; done", m.host)).CombinedOutput()
		t.Logf("%s", out)
	}
}

func onlyProgram(t *testing.T, c *capsule, r *running) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		members, err := listMembers(c.initPID())
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(members, func(_ int, m member) bool { return m.zombie })
		if len(findDescendants(members, []int{r.program.PID})) == len(members)-1 {
			return
		}
		if time.Now().After(end) {
			showMembers(t, c)
			t.Fatal("a process is left")
		}
	}
}

// beDumper dumps a program for a test that kills the dumper, and says when the dump is done.
func beDumper(args []string) int {
	var p Program
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		panic(err)
	}
	_, err := Dump(context.Background(), p, discard{})
	fmt.Println("done", err)
	return 0
}

type discard struct{}

func (discard) Create(string) (io.WriteCloser, error) { return discard{}, nil }
func (discard) Write(b []byte) (int, error)           { return len(b), nil }
func (discard) Close() error                          { return nil }

func usualDump(t *testing.T, p Program) time.Duration {
	begin := time.Now()
	dumpProgram(t, p, discard{})
	return time.Since(begin)
}

// callAtMoments calls f with times up to a little more than a dump takes.
func callAtMoments(t *testing.T, p Program, n int, f func(after time.Duration)) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	usual := usualDump(t, p)
	for range n {
		f(time.Duration(random.Int64N(int64(usual) * 5 / 4)))
	}
}

// TestCallerKilled: the process that dumps is killed at random moments; the program runs on undamaged.
func TestCallerKilled(t *testing.T) {
	needCRIU(t)
	c, r := startBusy(t)
	b, err := json.Marshal(r.program)
	if err != nil {
		t.Fatal(err)
	}
	callAtMoments(t, r.program, 60, func(after time.Duration) {
		cmd := exec.Command("/proc/self/exe", dumperArg, string(b))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		cmd.Process.Kill()
		cmd.Wait()
		runsAsBefore(t, c, r)
	})
	dumpProgram(t, r.program, discard{})
}

// TestCallerKilledFrozen: as TestCallerKilled, with a frozen program, which stays frozen.
func TestCallerKilledFrozen(t *testing.T) {
	needCRIU(t)
	g := newCgroup(t)
	c, r := startBusy(t)
	g.putProcess(t, r)
	b, err := json.Marshal(r.program)
	if err != nil {
		t.Fatal(err)
	}
	callAtMoments(t, r.program, 30, func(after time.Duration) {
		if err := g.setFrozen(testDeadline(t), true); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", dumperArg, string(b))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		cmd.Process.Kill()
		cmd.Wait()
		onlyProgram(t, c, r)
		if !g.standsStill(t) {
			t.Error("is not frozen any more")
		}
		if err := g.setFrozen(testDeadline(t), false); err != nil {
			t.Fatal(err)
		}
		runsAsBefore(t, c, r)
	})
}

// TestCancelDump: as TestCallerKilled, but the dump's context ends.
func TestCancelDump(t *testing.T) {
	needCRIU(t)
	c, r := startBusy(t)
	done := 0
	callAtMoments(t, r.program, 60, func(after time.Duration) {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		defer cancel()
		_, err := Dump(ctx, r.program, discard{})
		if err == nil {
			done++
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		runsAsBefore(t, c, r)
	})
	t.Logf("%d of 60 were done in time", done)
}

// TestCRIUKilled: criu itself is killed, as a user could do it. A process that criu was just dumping may die; but Dump
// must report that, and must leave no other process, and the cgroup as it was.
func TestCRIUKilled(t *testing.T) {
	needCRIU(t)
	for name, frozen := range map[string]bool{"running": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			g := newCgroup(t)
			begin := func() (*capsule, *running) {
				c, r := startBusy(t)
				if frozen {
					g.putProcess(t, r)
				}
				return c, r
			}
			c, r := begin()
			killed, hurt := 0, 0
			callAtMoments(t, r.program, 40, func(after time.Duration) {
				if frozen {
					if err := g.setFrozen(testDeadline(t), true); err != nil {
						t.Fatal(err)
					}
				}
				hit := make(chan bool, 1)
				timer := time.AfterFunc(after, func() { hit <- killCRIU(c) })
				_, err := Dump(testDeadline(t), r.program, discard{})
				if timer.Stop() {
					hit <- false
				}
				if was := <-hit; err != nil {
					killed++
					if !was {
						t.Fatal(err)
					}
				}
				onlyProgram(t, c, r)
				if frozen {
					if on, _ := g.isFrozen(); !on || !g.standsStill(t) {
						t.Error("is not frozen any more")
					}
					if err := g.setFrozen(testDeadline(t), false); err != nil {
						t.Fatal(err)
					}
				}
				r.outFile.SetReadDeadline(time.Now().Add(30 * time.Second))
				r.writeLine("?")
				if s, err := r.out.ReadString('\n'); s != "well\n" {
					hurt++
					t.Logf("the program says %q, %v", s, err)
					c.endCapsule()
					c, r = begin()
				}
			})
			t.Logf("%d of 40 were killed in time, %d programs were hurt", killed, hurt)
			if hurt > 4 {
				t.Error("more programs were hurt than are known to be")
			}
			dumpProgram(t, r.program, discard{})
		})
	}
}

func killCRIU(c *capsule) bool {
	members, err := listMembers(c.initPID())
	if err != nil {
		return false
	}
	for _, m := range members {
		if m.name == "criu" && m.parent != c.initPID() {
			return unix.Kill(m.host, unix.SIGKILL) == nil
		}
	}
	return false
}

// brokenSink fails at some write.
type brokenSink struct {
	left atomic.Int64
}

var errSink = errors.New("no space left in the store")

func (s *brokenSink) Create(string) (io.WriteCloser, error) {
	if s.left.Load() < 0 {
		return nil, errSink
	}
	return s, nil
}

func (s *brokenSink) Write(b []byte) (int, error) {
	if s.left.Add(int64(-len(b))) < 0 {
		return 0, errSink
	}
	return len(b), nil
}

func (s *brokenSink) Close() error {
	if s.left.Load() < 0 {
		return errSink
	}
	return nil
}

// TestBrokenSink: if the store is full, the dump fails, and has no other effect.
func TestBrokenSink(t *testing.T) {
	needCRIU(t)
	c, r := startBusy(t)
	for _, n := range []int64{0, 100, 5000, 100_000, 5 << 20, 20 << 20} {
		s := &brokenSink{}
		s.left.Store(n)
		_, err := Dump(testDeadline(t), r.program, s)
		if !errors.Is(err, errSink) {
			t.Fatalf("%d bytes: error %v", n, err)
		}
		runsAsBefore(t, c, r)
	}
}
