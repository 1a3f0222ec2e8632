// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// job is a workload with ranks under several device servers, in turns.
type job struct {
	servers *soft.Servers
	ranks   []*exec.Cmd
	out     []*soft.Output
	ended   chan error // one for each rank
	last    uint64     // attempt
	stdin   io.WriteCloser
	lines   []string // that are still to be written there
}

// startJob starts a workload over two device servers, as srun would.
func startJob(t *testing.T, ranks int, lines []string, name string, args ...string) *job {
	t.Helper()
	w := needWorld(t)
	j := &job{servers: w.Servers(t, 2, 2), ended: make(chan error, ranks), lines: lines}
	id := filepath.Join(t.TempDir(), "id")
	for i := range ranks {
		more := args
		if ranks > 1 {
			more = append(slices.Clone(args), "--ranks", strconv.Itoa(ranks), "--rank", strconv.Itoa(i), "--id-file", id)
		}
		c := j.servers.Command(t, i%2, filepath.Join(w.Dir, name), more...)
		out := &soft.Output{}
		c.Stdout, c.Stderr = out, out
		var err error
		if j.stdin, err = c.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		j.ranks, j.out = append(j.ranks, c), append(j.out, out)
		go func() { j.ended <- c.Wait() }()
	}
	return j
}

// feedLine writes the next line to the last rank.
func (j *job) feedLine(t *testing.T) {
	if len(j.lines) > 0 {
		if _, err := io.WriteString(j.stdin, j.lines[0]+"\n"); err != nil {
			t.Error(err)
		}
		j.lines = j.lines[1:]
	}
}

// printedText returns the output of all ranks so far.
func (j *job) printedText() string {
	var all strings.Builder
	for _, o := range j.out {
		all.WriteString(o.String())
	}
	return all.String()
}

// findCut looks for a cut.
func (j *job) findCut(t *testing.T, deadline time.Duration) (*cut.Cut, error) {
	j.last++
	return cut.Find(t.Context(), j.servers.Members, cut.Options{Attempt: j.last, Deadline: deadline, Tick: 300 * time.Millisecond})
}

// checkCut checks that the counts of a cut agree on all lines.
func checkCut(t *testing.T, c *cut.Cut) {
	t.Helper()
	members := map[barrier.Comm]int32{}
	for k := range c.Counts {
		members[k.Comm] = max(members[k.Comm], k.Member+1, k.Peer+1)
	}
	for k, n := range c.Counts {
		o := barrier.Key{Comm: k.Comm, Member: k.Peer, Kind: barrier.Send + barrier.Recv - k.Kind, Peer: k.Member}
		if k.Kind != barrier.Collective && c.Counts[o] != n {
			t.Errorf("the count of %v is %d, and that of its peer %v is %d", k, n, o, c.Counts[o])
		}
		for i := range members[k.Comm] {
			if o.Member = i; k.Kind == barrier.Collective && c.Counts[barrier.Key{Comm: k.Comm, Member: i}] != n {
				t.Errorf("the count of %v is %d, and that of member %d is %d", k, n, i, c.Counts[barrier.Key{Comm: k.Comm, Member: i}])
			}
		}
	}
}

// waitForRanks waits for all ranks' end, while strike is called at random moments.
func (j *job) waitForRanks(t *testing.T, seed uint64, strike func()) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	limit := time.After(4 * time.Minute)
	for left := len(j.ranks); left > 0; {
		// The moment of the disturbance.
		moment := time.After(time.Duration(r.Int64N(int64(150 * time.Millisecond))))
		select {
		case err := <-j.ended:
			if left--; err != nil {
				t.Fatalf("a rank: %v\n%s\n%s", err, j.printedText(), j.servers.Stderr.String())
			}
		case <-limit:
			t.Fatalf("the job does not end\n%s\n%s", j.printedText(), j.servers.Stderr.String())
		case <-moment:
			j.feedLine(t)
			strike()
		}
	}
}

// TestCut: workloads over two device servers, for which cuts are found at random moments, print the same as
// undisturbed.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
		lines []string
		args  []string
	}{
		{"mlp", 4, nil, []string{"--steps", "30"}},
		{"mlp", 4, nil, []string{"--steps", "20", "--zero", "3"}},
		{"gpt", 2, nil, []string{"--steps", "30"}},
		{"gpt", 2, nil, []string{"--steps", "20", "--recompute"}},
		{"grid", 4, nil, []string{"--steps", "15"}},
		{"streams", 2, nil, []string{"--steps", "30"}},
		{"solver", 1, nil, []string{"--steps", "1"}},
		{"serve", 1, []string{"hello", "what is it?", "hello", "once more", "quit"}, nil},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.args...), " "), func(t *testing.T) {
			calm := startJob(t, c.ranks, c.lines, c.name, c.args...)
			calm.waitForRanks(t, 1, func() {})
			seeds := []uint64{1, 2, 3}
			if testing.Short() {
				seeds = seeds[:1]
			}
			for _, seed := range seeds {
				j, found := startJob(t, c.ranks, c.lines, c.name, c.args...), 0
				j.waitForRanks(t, seed, func() {
					cut, err := j.findCut(t, time.Minute)
					var f *barrier.Failure
					switch {
					case errors.As(err, &f) && (f.Why == barrier.RankEnded || f.Why == barrier.RankDied):
						return // at the end; the next server is told before
					case err != nil:
						t.Fatalf("the cut failed: %v\n%s", err, j.servers.Stderr.String())
					}
					found++
					checkCut(t, cut)
					before := j.printedText()
					if err := cut.Err(); err != nil {
						t.Error(err)
					}
					if now := j.printedText(); now != before && !strings.HasPrefix(now, before) {
						t.Errorf("the job printed %q and then %q while it was stopped", before, now)
					}
					if err := cut.Open(t.Context()); err != nil {
						t.Fatal(err)
					}
				})
				if got, want := j.printedText(), calm.printedText(); got != want {
					t.Errorf("seed %d: after %d cuts it printed\n%s, not\n%s", seed, found, got, want)
				}
				if found == 0 {
					t.Errorf("seed %d: no cut was found", seed)
				}
				t.Logf("seed %d: %d cuts", seed, found)
			}
		})
	}
}

// TestCutOfStopped: a rank that stands still makes an attempt fail with its name, or does not matter; when the rank goes on, so do all.
func TestCutOfStopped(t *testing.T) {
	j := startJob(t, 4, nil, "mlp", "--steps", "25")
	stopped, failed := 0, 0
	j.waitForRanks(t, 5, func() {
		if stopped == 6 {
			return
		}
		pid := j.ranks[stopped%4].Process.Pid
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return // the program has ended
		}
		stopped++
		name := fmt.Sprintf("process %d on device server ", pid)
		var c *cut.Cut
		var err error
		var f *cut.Failure
		// On a machine with much to do, other ranks may be late as well.
		for deadline := 500 * time.Millisecond; deadline < time.Minute; deadline *= 2 {
			c, err = j.findCut(t, deadline)
			if !errors.As(err, &f) || f.Why != barrier.DeadlinePassed || strings.Contains(err.Error(), name) {
				break
			}
		}
		switch {
		case err == nil:
			checkCut(t, c)
			if err := c.Open(t.Context()); err != nil {
				t.Error(err)
			}
		case !errors.As(err, &f):
			t.Error(err)
		case f.Why == barrier.DeadlinePassed:
			failed++
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v does not name process %d", err, pid)
			}
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		if c, err := j.findCut(t, time.Minute); err == nil {
			checkCut(t, c)
			if err := c.Open(t.Context()); err != nil {
				t.Error(err)
			}
		} else if errors.As(err, &f) && f.Why == barrier.DeadlinePassed {
			t.Error(err)
		}
	})
	if got := strings.Count(j.printedText(), "\n"); got != 25 {
		t.Errorf("the job printed %d lines, want 25\n%s", got, j.printedText())
	}
	t.Logf("stopped %d times, %d attempts failed of it", stopped, failed)
}
