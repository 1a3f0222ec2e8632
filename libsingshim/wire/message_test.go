// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
)

// TestMessages: every message of many threads arrives once, whole, in the order of its
// thread, and messages that were ordered by a lock in that order.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		how      string
		threads  int
		messages int
	}{
		{"plain", 1, 3000},
		{"plain", 8, 1000},
		{"asan", 4, 500},
		{"thread", 4, 300},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.how, c.threads), func(t *testing.T) {
			w := newWitness()
			p := startProgram(t, w.handleMessage, buildProgram(t, "load", c.how), "burst", c.threads, c.messages, logSeed(t))
			p.mustEndWell(t)
			w.checkMessages(t)
			for i := range c.threads {
				if n := w.seen[uint64(i)]; n != uint64(c.messages) {
					t.Errorf("thread %d: %d messages were handled, want all", i, n)
				}
			}
			if w.stamp == 0 {
				t.Error("no stamped message was handled")
			}
		})
	}
}

// TestWrap: positions begin anew after 2^31, in the middle of a burst, on the lane of each thread.
func TestWrap(t *testing.T) {
	r, err := Create(Options{})
	if err != nil {
		t.Fatal(err)
	}
	const near = positionMask - 3000 // units: some tenths of a lane
	for i := range r.lanes {
		r.mem.laneAt(i).tail, r.mem.laneAt(i).head = near, near<<1
		r.lanes[i].next = near
		r.lanes[i].release.Store(near)
	}
	const threads, messages = 3, 1500
	w := newWitness()
	p := startOn(t, r, w.handleMessage, buildProgram(t, "load", "asan"), "together", threads, messages, logSeed(t))
	p.mustEndWell(t)
	w.checkMessages(t)
	wrapped := 0
	for i := range r.lanes {
		if r.lanes[i].next < near {
			wrapped++
		}
	}
	if wrapped != threads {
		t.Errorf("the positions of %d lanes began anew, want all lanes", wrapped)
	}
}

// TestBriefThreads: lanes of threads that ended are used again, and threads beyond the lanes
// find a lane for the moment.
func TestBriefThreads(t *testing.T) {
	for _, c := range []struct {
		how             string
		threads, rounds int
	}{
		{"plain", 200, 5},
		{"asan", 16, 12},
		{"thread", 16, 12},
	} {
		t.Run(c.how, func(t *testing.T) {
			w := newWitness()
			p := startProgram(t, w.handleMessage, buildProgram(t, "load", c.how), "brief", c.threads, c.rounds, 0)
			p.mustEndWell(t)
			w.checkMessages(t)
			if n := w.handled[opSink]; n != c.threads*c.rounds {
				t.Errorf("%d messages were handled, want all of all rounds", n)
			}
		})
	}
}

// TestSeveral: threads ask several calls before they wait, more threads than there are lanes.
func TestSeveral(t *testing.T) {
	for _, c := range []struct {
		how               string
		threads, messages int
	}{
		{"plain", 1, 1000},
		{"plain", 150, 100},
		{"asan", 20, 200},
		{"thread", 20, 50},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.how, c.threads), func(t *testing.T) {
			w := newWitness()
			p := startProgram(t, w.handleMessage, buildProgram(t, "load", c.how), "several", c.threads, c.messages, 0)
			p.mustEndWell(t)
			w.checkMessages(t)
			if n := w.handled[opSink]; n != c.threads*c.messages {
				t.Errorf("%d messages were handled, want all of all threads", n)
			}
		})
	}
}

// TestLate: other goroutines answer, in any order, and each thread gets its own answer.
func TestLate(t *testing.T) {
	const threads, messages, hands = 6, 400, 4
	type late struct {
		call *Call
		args []byte
	}
	work := make(chan late, threads)
	var wg sync.WaitGroup
	for range hands {
		wg.Go(func() {
			for l := range work {
				if err := l.call.Answer(int32(binary.LittleEndian.Uint32(l.args)), l.args); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w := newWitness()
	w.hold = func(m *Message) { work <- late{m.Call(), slices.Clone(m.Args)} }
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "asan"), "late", threads, messages, 0)
	p.mustEndWell(t)
	close(work)
	wg.Wait()
	w.checkMessages(t)
	if n := w.handled[opSink]; n != threads*messages {
		t.Errorf("messages of %d rounds were handled, want %d", n, threads*messages)
	}
}

// TestInterrupted: a signal handler sends messages, and calls, in the middle of other
// messages; on the thread's stack, or on its own stack.
func TestInterrupted(t *testing.T) {
	for _, c := range []struct{ how, what string }{
		{"plain", "interrupt"},
		{"plain", "aside"},
		{"asan", "interrupt"},
	} {
		t.Run(c.how+"-"+c.what, func(t *testing.T) {
			w := newWitness()
			p := startProgram(t, w.handleMessage, buildProgram(t, "load", c.how), c.what, 3, 0, logSeed(t))
			p.mustEndWell(t)
			w.checkMessages(t)
			if n := w.handled[opSink]; n < 200 {
				t.Errorf("messages of %d signal handlers were handled, want 200 or more", n)
			}
		})
	}
}

// TestAbandoned: messages that a handler left by a jump do not come, or come and
// their answers are not read; the thread goes on.
func TestAbandoned(t *testing.T) {
	for _, c := range []struct {
		name, how string
		threads   int
	}{
		{"at the same place", "plain", 1},
		{"sanitized", "asan", 1},
		{"further down", "plain", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rounds = 300
			w := newWitness()
			var p *process
			var held []*Call
			ready := make(chan struct{})
			w.hold = func(m *Message) {
				<-ready
				if len(held) == 3 { // of lanes that have ended
					for _, c := range held {
						if err := c.Answer(0); err != nil {
							t.Error(err)
						}
					}
					held = nil
				}
				held = append(held, m.Call())
				p.cmd.Process.Signal(sigusr2)
			}
			p = startProgram(t, w.handleMessage, buildProgram(t, "load", c.how), "abandon", c.threads, rounds, 0)
			close(ready)
			p.mustEndWell(t)
			w.checkMessages(t)
			if n := w.handled[opSink]; n != rounds {
				t.Errorf("messages of %d rounds were handled, want %d", n, rounds)
			}
		})
	}
}

// TestCancelled: a thread that is cancelled, anywhere, does not stop the rest, nor does a
// thread that ends by the bare system call; their lanes are used again.
func TestCancelled(t *testing.T) {
	for _, what := range []string{"cancel", "leave"} {
		t.Run(what, func(t *testing.T) {
			w := newWitness()
			p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), what, 1, 400, logSeed(t))
			p.mustEndWell(t)
			w.checkMessages(t)
			if n := w.handled[opSink]; n < 400 {
				t.Errorf("%d messages were handled, want 400 or more", n)
			}
		})
	}
}

// TestFork: a child finds that the ring is its parent's, by any kind of fork, and the parent's other threads, in the
// middle of messages, do not notice.
func TestFork(t *testing.T) {
	const threads, messages = 4, 150
	w := newWitness()
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), "fork", threads, messages, logSeed(t))
	p.mustEndWell(t)
	w.checkMessages(t)
	if n := w.handled[opSink]; n != messages {
		t.Errorf("%d messages, %d are the parent's", n, messages)
	}
	for i := range uint64(threads - 1) {
		if n := w.seen[i]; n != messages {
			t.Errorf("thread %d: %d messages were handled, want all", i, n)
		}
	}
}

// TestExec: a process that executes another program in the middle leaves a ring that can be closed, and no descriptor
// or mapping of the ring.
func TestExec(t *testing.T) {
	w := newWitness()
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), "exec", 1, 0, logSeed(t))
	awaitExec(t, p.cmd.Process.Pid)
	p.cmd.Process.Kill()
	if _, served := p.waitForEnd(t); served != nil {
		t.Errorf("Serve after exec and kill: %v", served)
	}
	w.checkMessages(t)
	if w.countMessages(opPing) != 1 {
		t.Error("the process that was killed had made no call")
	}
}

// TestCounts: the counts of issued messages are exact at any time.
func TestCounts(t *testing.T) {
	const threads, messages = 4, 5000
	w := newWitness()
	p := startProgram(t, w.handleMessage, buildProgram(t, "load", "plain"), "count", threads, messages, 0)
	var last map[uint64]uint64
	for {
		now, err := p.ring.Counts()
		if err != nil {
			break
		}
		var sum uint64
		for i := range uint64(threads) {
			sum += now[1000+i]
		}
		if now[7] != 2*sum {
			t.Fatalf("half a message was counted: %v", now)
		}
		for k, n := range last {
			if now[k] < n {
				t.Fatalf("the count of key %d went down to %d from %d", k, now[k], n)
			}
		}
		last = now
	}
	p.mustEndWell(t)
	w.checkMessages(t)
	want := map[uint64]uint64{7: 2 * threads * messages}
	for i := range uint64(threads) {
		want[1000+i] = messages
	}
	if got := p.ring.counts; !maps.Equal(got, want) {
		t.Errorf("counts = %v, want %v", got, want)
	}
}

// TestFault: the process reads by itself that there is a fault.
func TestFault(t *testing.T) {
	r, err := Create(Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness()
	p := startOn(t, r, func(m *Message) {
		if m.Number == 10 {
			r.SetFault(719)
		}
		w.handleMessage(m)
	}, buildProgram(t, "load", "asan"), "fault", 1, 0, 0)
	p.mustEndWell(t)
	w.checkMessages(t)
}

// TestNumbers: the number of a message's thread is set by the process, and each thread has its own.
func TestNumbers(t *testing.T) {
	var ids []uint32
	p := startProgram(t, func(m *Message) {
		if m.Op == opSink && binary.LittleEndian.Uint64(m.Args) < 4 {
			ids = append(ids, m.Thread)
		}
		if c := m.Call(); c != nil {
			c.Answer(0)
		}
	}, buildProgram(t, "load", "plain"), "brief", 4, 1, 0)
	p.mustEndWell(t)
	slices.Sort(ids)
	if len(ids) != 4 || ids[0] == 0 || ids[0] == ids[3] {
		t.Errorf("threads %v", ids)
	}
}
