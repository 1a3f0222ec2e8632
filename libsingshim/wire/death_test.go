// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKill: a process is killed at any moment. The server sees whole messages in order up to there, frees all memory of
// the ring, and goes on to serve other processes.
func TestKill(t *testing.T) {
	s := random(logSeed(t))
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	other := newWitness()
	bystander := startProgram(t, other.handleMessage, buildProgram(t, "load", "plain"), "burst", 2, 0, uint64(s))
	for range rounds {
		w := newWitness()
		after := s.nextNumber() % 1500
		reached := make(chan struct{})
		p := startProgram(t, func(m *Message) {
			w.handleMessage(m)
			if m.Number == after {
				close(reached)
			}
		}, buildProgram(t, "load", "plain"), "burst", 4, 0, s.nextNumber()%1e9)
		<-reached
		for n := s.nextNumber() % 1500; n > 0; n-- {
			atomic.LoadUint64(&p.ring.mem.viewRingHead().order) // some moment later
		}
		p.cmd.Process.Kill()
		ended, served := p.waitForEnd(t)
		if served != nil || ended == nil || !strings.Contains(ended.Error(), "killed") {
			t.Fatalf("the program: %v; the server: %v", ended, served)
		}
		w.checkMessages(t)
		if n := p.ring.users.Load(); n != 0 {
			t.Fatalf("the ring of a killed process has %d users, want 0", n)
		}
	}
	before := bystander.ring.takenSoFar()
	waitFor(t, "the other goes on", func() bool { return bystander.ring.takenSoFar() > before })
	bystander.closeRing(t)
	other.checkMessages(t)
}

// TestAdopt: another server takes over, at rest, and the threads do not notice.
func TestAdopt(t *testing.T) {
	w := newWitness()
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), "burst", 4, 0, logSeed(t))
	for range 10 {
		r := p.ring
		waitFor(t, "messages", func() bool { return r.takenSoFar() > 100 })
		failOn(t, r.Shut(Calls))
		checkAtRest(t, r)
		counts, err := r.Counts()
		failOn(t, err)
		fd, err := unix.Dup(int(r.File().Fd()))
		failOn(t, err)
		f := os.NewFile(uintptr(fd), "ring")
		r.Detach()
		failOn(t, <-p.served)
		w.number = 0
		next, err := Adopt(f, Options{Counts: counts})
		failOn(t, err, f.Close())
		p.ring = next
		go func() { p.served <- next.Serve(w.handleMessage) }()
		failOn(t, next.Open(Calls))
		waitFor(t, "the threads go on after the adoption", func() bool { return w.countMessages(opEcho) > 0 && next.takenSoFar() > 0 })
	}
	p.closeRing(t)
	w.checkMessages(t)
}

// testMemfd makes a memfd with seals.
func testMemfd(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	failOn(t, err)
	f := os.NewFile(uintptr(fd), "test")
	failOn(t, f.Truncate(size))
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	failOn(t, err)
	return f
}

// testRing makes a sealed ring with another head.
func testRing(t *testing.T, change func(h *ringHead)) *os.File {
	t.Helper()
	f := testMemfd(t, ringSize, seals)
	m, err := mapMemory(f)
	failOn(t, err)
	h := m.viewRingHead()
	h.magic, h.version, h.lanes, h.laneUnits, h.size = ringMagic, ringVersion, lanes, laneUnits, ringSize
	change(h)
	failOn(t, m.unmap())
	return f
}

// TestAttachRefuses: the process refuses a ring that could kill it by a signal, or that has an unknown layout.
func TestAttachRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		want unix.Errno
		file *os.File
	}{
		{"a ring", 0, testRing(t, func(*ringHead) {})},
		{"could shrink", unix.EINVAL, testMemfd(t, ringSize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)},
		{"too small", unix.EINVAL, testMemfd(t, ringSize-4096, seals)},
		{"no magic", unix.EPROTO, testMemfd(t, ringSize, seals)},
		{"version", unix.EPROTO, testRing(t, func(h *ringHead) { h.version++ })},
		{"lanes", unix.EPROTO, testRing(t, func(h *ringHead) { h.lanes++ })},
		{"length of lanes", unix.EPROTO, testRing(t, func(h *ringHead) { h.laneUnits++ })},
		{"size", unix.EPROTO, testRing(t, func(h *ringHead) { h.size++ })},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer c.file.Close()
			cmd := exec.Command(buildProgram(t, "load", "plain"), "attach", "0", "0", "0")
			cmd.ExtraFiles = []*os.File{c.file}
			err := cmd.Run()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if got := unix.Errno(cmd.ProcessState.ExitCode()); got != c.want {
				t.Errorf("the process attaches with %v, want %v", got, c.want)
			}
		})
	}
}

// TestAdoptRefuses: Adopt refuses a file that could kill the server by a signal, and a file that is no ring at rest.
func TestAdoptRefuses(t *testing.T) {
	for _, c := range []struct {
		name, says string
		make       func(*testing.T) *os.File
	}{
		{"a file", "no memfd", func(t *testing.T) *os.File {
			f, err := os.Create(filepath.Join(t.TempDir(), "file"))
			failOn(t, err, f.Truncate(ringSize))
			return f
		}},
		{"could shrink", "not sealed", func(t *testing.T) *os.File {
			return testMemfd(t, ringSize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		}},
		{"too small", "bytes and not", func(t *testing.T) *os.File { return testMemfd(t, ringSize-4096, seals) }},
		{"no magic", "magic 0x0", func(t *testing.T) *os.File { return testMemfd(t, ringSize, seals) }},
		{"version", "version 2", func(t *testing.T) *os.File { return testRing(t, func(h *ringHead) { h.version = 2 }) }},
		{"not empty", ErrNotEmpty.Error(), func(t *testing.T) *os.File {
			return testRing(t, func(h *ringHead) { h.order = firstUnit })
		}},
		{"closed", ErrClosed.Error(), func(t *testing.T) *os.File {
			return testRing(t, func(h *ringHead) { h.order = closedBit })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(t)
			defer f.Close()
			r, err := Adopt(f, Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("Adopt = %v, %v, want an error with the reason", r, err)
			}
		})
	}
}

// TestSealed: a process with the ring's memory can make the memory neither shorter nor longer.
func TestSealed(t *testing.T) {
	r, err := Create(Options{})
	failOn(t, err)
	defer r.Close()
	for _, size := range []int64{0, ringSize - 4096, ringSize + 4096} {
		if err := r.File().Truncate(size); !errors.Is(err, unix.EPERM) {
			t.Errorf("Truncate to %d: %v, want EPERM", size, err)
		}
	}
	if _, err := unix.FcntlInt(r.File().Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("adding a seal: %v, want EPERM", err)
	}
	failOn(t, checkMemory(r.File()))
}

// TestScribble: a process writes nonsense all over its ring while the ring is served, and while the gates are moved.
// The server ends with a reason or goes on; the server neither hangs nor crashes.
func TestScribble(t *testing.T) {
	s := random(logSeed(t))
	rounds := 30
	if testing.Short() {
		rounds = 8
	}
	reasons := map[string]int{}
	for range rounds {
		bulk := make([]byte, recordUnits*unitSize)
		p := startProgram(t, func(m *Message) {
			m.Bulk(bulk, 0)
			if c := m.Call(); c != nil {
				c.Answer(1, m.Args[:min(len(m.Args), c.Room())])
			}
		}, buildProgram(t, "load", "plain"), "scribble", 3, 0, s.nextNumber()%1e9)
		actAsBarrier(p.ring, 3000)
		p.cmd.Process.Kill()
		_, served := p.waitForEnd(t)
		var nonsense *HostileError
		if served != nil && !errors.As(served, &nonsense) {
			t.Fatalf("Serve: %v, want a HostileError or nil", served)
		}
		reasons[firstWords(served)]++
	}
	t.Log(reasons)
	if len(reasons) == 1 && reasons["<nil>"] > 0 {
		t.Error("in no round did the server notice the nonsense")
	}
}

// actAsBarrier makes the calls of a barrier, until the ring is closed or n times.
func actAsBarrier(r *Ring, n int) {
	for range n {
		if r.Shut(Calls) != nil || r.Shut(Counted) != nil || r.Grant(2) != nil {
			return
		}
		if _, err := r.Busy(); err != nil {
			return
		}
		if _, err := r.Withdraw(); err != nil || r.Open(Calls) != nil || r.Open(Counted) != nil {
			return
		}
		if _, err := r.Counts(); err != nil {
			return
		}
	}
}

func firstWords(err error) string {
	s := strings.TrimPrefix(fmt.Sprint(err), (&HostileError{}).Error())
	words := strings.Fields(s)
	return strings.Join(words[:min(3, len(words))], " ")
}
