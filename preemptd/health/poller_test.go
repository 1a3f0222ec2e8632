// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// fake is a cluster of proxyds that a test stops. Each answer takes 20 ms, and a stopped proxyd does not answer.
type fake struct {
	mu       sync.Mutex
	nodes    []Node
	stopped  map[string]bool
	replies  map[string]*rpc.PingReply // by node; nil: sound
	asked    map[string]int
	underWay int
	most     int // questions under way at once
	total    int
}

var errAway = errors.New("no answer")

func newFake(n int) *fake {
	f := &fake{stopped: map[string]bool{}, replies: map[string]*rpc.PingReply{}, asked: map[string]int{}}
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		f.nodes = append(f.nodes, Node{Name: name, Address: name})
	}
	return f
}

func (f *fake) listNodes() []Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Node(nil), f.nodes...)
}

func (f *fake) askNode(ctx context.Context, n Node) (*rpc.PingReply, error) {
	f.mu.Lock()
	f.asked[n.Name]++
	f.total++
	f.underWay++
	f.most = max(f.most, f.underWay)
	stopped, reply := f.stopped[n.Name], f.replies[n.Name]
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.underWay--
	}()
	if stopped {
		<-ctx.Done()
		return nil, errAway
	}
	time.Sleep(20 * time.Millisecond)
	if reply == nil {
		reply = &rpc.PingReply{Node: n.Name, Version: "1.2.3", Health: &rpc.Health{Shared: rpc.Health_RIGHT, SharedId: "a", Store: &rpc.Space{Size: 100, Free: 40}, Capsules: 1}}
	}
	return reply, nil
}

func (f *fake) changeNodes(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) countQuestions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

func (f *fake) countAsked(node string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[node]
}

// runPoller runs a poller over the fake until the test ends, in a bubble of a test's own time.
func (f *fake) runPoller(t *testing.T, do func(p *Poller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &Poller{Nodes: f.listNodes, Ask: f.askNode, Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.Run(ctx) }()
		do(p)
		cancel()
		<-ended
	})
}

func stateOf(t *testing.T, p *Poller, node string) State {
	t.Helper()
	for _, s := range p.Report() {
		if s.Node == node {
			return s
		}
	}
	t.Fatalf("the report lacks node %s", node)
	return State{}
}

// TestThousandNodes: each of 1000 nodes is asked once a minute, evenly, and few at once; 300 dead nodes do not slow
// the questions to the rest.
func TestThousandNodes(t *testing.T) {
	for _, dead := range []int{0, 300} {
		t.Run(fmt.Sprintf("%d are dead", dead), func(t *testing.T) {
			f := newFake(1000)
			for i := range dead {
				f.stopped[f.nodes[3*i].Name] = true
			}
			f.runPoller(t, func(p *Poller) {
				time.Sleep(5*time.Minute + time.Second/2) // until all have been asked, and the dead proxyds are asked rarely; and between two seconds
				for _, s := range p.Report() {
					if s.Asked.IsZero() || s.Answers == f.stopped[s.Node] {
						t.Fatalf("after 5 minutes: %+v", s)
					}
				}
				alive, whole := f.nodes[1].Name, f.countQuestions()
				before, most := f.countAsked(alive), 0
				for range 600 { // 10 minutes, second by second
					was := f.countQuestions()
					time.Sleep(time.Second)
					most = max(most, f.countQuestions()-was)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				t.Logf("%d questions in 10 minutes, %d in a second at most, %d under way at most", f.total-whole, most, f.most)
				if n := f.asked[alive] - before; n < 9 || n > 10 {
					t.Errorf("a node that answers was asked %d times in 10 minutes, want 10", n)
				}
				if n := f.total - whole; n > 10*1000 {
					t.Errorf("%d questions in 10 minutes", n)
				}
				if f.most > atOnce || most > 34 {
					t.Errorf("%d questions under way at once, %d in a second", f.most, most)
				}
				for _, s := range p.Report() {
					if !s.Answers {
						continue
					}
					if age := time.Since(s.Heard); age > 65*time.Second {
						t.Fatalf("%s was heard %v ago", s.Node, age)
					}
				}
			})
		})
	}
}

// TestBackOff: a node that does not answer is asked less and less often, and once Slurm finds the node up again, at
// once.
func TestBackOff(t *testing.T) {
	f := newFake(3)
	f.runPoller(t, func(p *Poller) {
		time.Sleep(time.Second)
		first := stateOf(t, p, "n2")
		if !first.Answers || first.Reply.GetVersion() != "1.2.3" || first.Since.IsZero() {
			t.Fatalf("state of n2 at first = %+v", first)
		}
		f.changeNodes(func() { f.stopped["n2"], f.nodes[1].Down = true, true })
		time.Sleep(40 * time.Second)
		s := stateOf(t, p, "n2")
		if s.Answers || !errors.Is(s.Err, errAway) || !s.Heard.Equal(first.Heard) || s.Reply == nil || time.Since(s.Since) > 10*time.Second {
			t.Errorf("state of the stopped n2 = %+v", s)
		}
		since, before := s.Since, f.countAsked("n2")
		time.Sleep(time.Hour)
		if n := f.countAsked("n2") - before; n < 6 || n > 12 {
			t.Errorf("asked %d times in an hour", n)
		}
		if s := stateOf(t, p, "n2"); !s.Since.Equal(since) {
			t.Errorf("silent since %v, then since %v", since, s.Since)
		}
		f.changeNodes(func() { f.stopped["n2"], f.nodes[1].Down = false, false })
		time.Sleep(2 * time.Second)
		if s := stateOf(t, p, "n2"); !s.Answers || s.Err != nil {
			t.Errorf("state of n2 when Slurm finds it up = %+v", s)
		}
		f.changeNodes(func() { f.nodes = f.nodes[:1] })
		time.Sleep(2 * time.Second)
		if all := p.Report(); len(all) != 1 || all[0].Node != "n1" {
			t.Errorf("Slurm knows n1 only: %+v", all)
		}
	})
}

// TestReport: the problems of nodes that answer. An older release does not tell its health, and its node has no
// problem.
func TestReport(t *testing.T) {
	f := newFake(11)
	for i, h := range []*rpc.Health{
		nil, // an older release
		{Shared: rpc.Health_UNMARKED, SharedId: "a"}, {Shared: rpc.Health_OTHER, SharedId: "a"}, {Shared: rpc.Health_SILENT, SharedId: "a"},
		{Shared: rpc.Health_UNREADABLE, SharedId: "a"}, {Shared: rpc.Health_RIGHT, SharedId: "b", Store: &rpc.Space{Size: 100, Free: 7}, Capsules: 3},
		{Shared: rpc.Health_NO_STORE, SharedId: "a"}, {Shared: rpc.Health_OTHER_STORE, SharedId: "a"}, {Shared: 99}, // the last is of a newer release
	} {
		f.replies[f.nodes[i].Name] = &rpc.PingReply{Version: "1.0", Health: h}
	}
	f.stopped["n11"] = true
	want := []string{
		"", "the shared folder is not there, or not mounted", "another folder is where the shared folder was", "the file system of the shared folder does not answer",
		"the shared folder cannot be read", "the node works with another shared folder than most nodes",
		"the store is not there, or not mounted", "another store is where the store was", "something is wrong with the shared folder", "", "",
	}
	f.runPoller(t, func(p *Poller) {
		time.Sleep(10 * time.Second)
		all := p.Report()
		for i, s := range all {
			if s.Problem != want[i] || s.Answers != (i != 10) {
				t.Errorf("state in the report = %+v, want the problem %q", s, want[i])
			}
		}
		c := CountStates(all)
		if c.Nodes != 11 || c.Answer != 10 || c.Silent != 1 || c.Unsound != 8 || c.Capsules != 4 || c.LeastFree.GetFree() != 7 || c.Versions["1.0"] != 9 || c.Versions["1.2.3"] != 1 {
			t.Errorf("CountStates = %+v", c)
		}
	})
}
