// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// waitFor waits until the function is returns true, and fails the test if that takes too long.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for since := time.Now(); !is(); time.Sleep(100 * time.Microsecond) {
		if time.Since(since) > patience {
			t.Fatal("never: " + what)
		}
	}
}

func (r *Ring) takenSoFar() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// closeRing closes the ring and expects the program to end with RING_CLOSED.
func (p *process) closeRing(t *testing.T) {
	t.Helper()
	p.ring.Close()
	ended, served := p.waitForEnd(t)
	var exit *exec.ExitError
	if !errors.As(ended, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the program: %v", ended)
	}
	if served != nil {
		t.Errorf("the server: %v", served)
	}
}

func checkAtRest(t *testing.T, r *Ring) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if b, err := r.Rest(ctx); err != nil {
		t.Fatalf("Rest: the ring is busy with %+v: %v", b, err)
	}
}

func failOn(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestCallGate: when the gate is shut and the ring has come to rest, the ring is empty and no message comes, although
// many threads were at work; when the gate is open again, they go on.
func TestCallGate(t *testing.T) {
	w := newWitness()
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), "burst", 6, 0, logSeed(t))
	r := p.ring
	var last uint64
	for range 60 {
		waitFor(t, "more messages", func() bool { return r.takenSoFar() > last })
		failOn(t, r.Shut(Calls))
		checkAtRest(t, r)
		last = r.takenSoFar()
		for range 200 {
			b, err := r.Busy()
			failOn(t, err)
			if n := r.takenSoFar(); n != last || !b.IsZero() {
				t.Fatalf("at rest, messages went on: %d taken, before %d; Busy = %+v", n, last, b)
			}
			runtime.Gosched()
		}
		failOn(t, r.Open(Calls))
	}
	p.closeRing(t)
	w.checkMessages(t)
}

// TestCountedGate: at the shut gate the counts stand still, but for grants that are not withdrawn; messages that are
// not counted pass.
func TestCountedGate(t *testing.T) {
	w := newWitness()
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), "mixed", 5, 0, logSeed(t))
	r := p.ring
	counts := func() map[uint64]uint64 {
		c, err := r.Counts()
		failOn(t, err)
		return c
	}
	var told atomic.Uint64
	r.OnCounted(func() { told.Add(1) })
	for round := range 20 {
		before := counts()[7]
		waitFor(t, "more is counted", func() bool { return counts()[7] > before })
		failOn(t, r.Shut(Counted))
		stands := counts()
		other := r.takenSoFar()
		waitFor(t, "others pass", func() bool { counts(); return r.takenSoFar() > other })
		if now := counts(); !maps.Equal(now, stands) {
			t.Fatalf("at the shut gate, counts = %v, want %v", now, stands)
		}
		was, err := r.Tally()
		failOn(t, err)
		quiet := told.Load()
		failOn(t, r.Grant(round))
		waitFor(t, "the grants are used", func() bool {
			now, err := r.Tally()
			failOn(t, err)
			if used := now.Messages - was.Messages; int(used)+now.Unused != round || now.Counts[7] != stands[7]+2*used {
				t.Fatalf("%d of %d grants are used, %d are not, %d counted after %d", used, round, now.Unused, now.Counts[7], stands[7])
			}
			return now.Unused == 0
		})
		if (told.Load() == quiet) != (round == 0) {
			t.Fatalf("OnCounted was called %d times for %d used grants", told.Load()-quiet, round)
		}

		failOn(t, r.Grant(1000))
		unused, err := r.Withdraw()
		failOn(t, err)
		now := counts()
		if want := stands[7] + 2*uint64(round+1000-unused); now[7] != want {
			t.Fatalf("after Withdraw, the count is %d, want %d; %d grants were unused", now[7], want, unused)
		}
		other = r.takenSoFar()
		waitFor(t, "others pass", func() bool { counts(); return r.takenSoFar() > other })
		if again := counts(); !maps.Equal(again, now) {
			t.Fatalf("after Withdraw, counts = %v, want %v", again, now)
		}
		failOn(t, r.Open(Counted))
	}
	if err := r.Grant(1); err == nil {
		t.Error("Grant with an open gate: no error")
	}
	failOn(t, r.Shut(Counted))
	if err := r.Grant(1 << 16); err == nil {
		t.Error("Grant of more than the limit: no error")
	}
	last := counts()
	p.closeRing(t) // and they all stand at the gate
	w.checkMessages(t)
	if now, err := r.Tally(); !errors.Is(err, ErrClosed) || !maps.Equal(now.Counts, last) {
		t.Errorf("Tally of a closed ring: %v, counts %v, want %v", err, now.Counts, last)
	}
}

// TestFull: threads that find no room wait, and go on when there is some.
func TestFull(t *testing.T) {
	const threads, messages = 3, 20000
	gate := make(chan struct{})
	next := map[uint32]uint64{} // by thread
	p := startProgram(t, func(m *Message) {
		<-gate
		if n := binary.LittleEndian.Uint64(m.Args); n != next[m.Thread] {
			t.Errorf("thread %d: message %d, want %d", m.Thread, n, next[m.Thread])
		}
		next[m.Thread]++
	}, buildProgram(t, "load", "plain"), "count", threads, messages, 0)
	waitFor(t, "the threads wait for room in the ring", func() bool { return countWaiting(p.ring) == threads })
	close(gate)
	p.mustEndWell(t)
	for thread, n := range next {
		if n != messages {
			t.Errorf("thread %d: %d messages were handled, want all", thread, n)
		}
	}
	if len(next) != threads {
		t.Errorf("messages of %d threads were handled, want all threads", len(next))
	}
}

// countWaiting counts the lanes with threads that wait for room.
func countWaiting(r *Ring) int {
	if !r.enterMapping() {
		return -1
	}
	defer r.releaseMapping()
	n := 0
	for i := range r.lanes {
		n += int(atomic.LoadUint32(&r.mem.laneAt(i).head) & waitsBit)
	}
	return n
}

// TestClose: each thread that waits, for an answer or for room, gets an error.
func TestClose(t *testing.T) {
	w := newWitness()
	var held atomic.Bool
	w.hold = func(*Message) { held.Store(true) }
	stop := make(chan struct{})
	p := startProgram(t, func(m *Message) {
		w.handleMessage(m)
		if m.Op == opSink && held.Load() {
			<-stop
		}
	}, buildProgram(t, "load", "plain"), "stuck", 4, 0, 0)
	waitFor(t, "the threads wait", func() bool { return held.Load() && countWaiting(p.ring) == 3 })
	time.AfterFunc(time.Millisecond, func() { close(stop) })
	p.closeRing(t)
	w.checkMessages(t)
	if _, err := p.ring.Counts(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := p.ring.Serve(nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	p.ring.Close()
	p.ring.Finish()
	p.ring.SetFault(1)
}

// TestOrphan: a call that no server serves any more ends when the process finds the server gone.
func TestOrphan(t *testing.T) {
	r, err := Create(Options{})
	failOn(t, err)
	defer r.Close()
	p := newProcess(t, r, buildProgram(t, "load", "plain"), "orphan", 1, 0, 0)
	failOn(t, p.cmd.Start())
	defer time.AfterFunc(patience, func() { p.cmd.Process.Kill() }).Stop()
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the program: %v", err)
	}
}
