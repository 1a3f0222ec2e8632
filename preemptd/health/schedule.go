// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

const (
	shortestPeriod = 30 * time.Second      // between two questions to a node that answers
	periodPerNode  = 60 * time.Millisecond // by which the period is longer for each node
	firstRetry     = 10 * time.Second      // after a node gave no answer
	longestRetry   = 10 * time.Minute

	atOnce       = 32 // questions under way
	silentAtOnce = 16 // of these, to nodes that gave no answer the last time: each lasts until its deadline
	leastStarts  = 8  // questions that may begin in a second
)

// Node is a node that Slurm knows.
type Node struct {
	Name, Address string
	Down          bool // Slurm calls it down, or not responding
}

// schedule knows which node is to be asked next. A schedule has no clock.
type schedule struct {
	nodes    []*entry // in the order in which Slurm lists them
	byName   map[string]*entry
	underWay int
	silent   int // of these, to nodes that gave no answer the last time
}

// entry is a node with the state of its proxyd.
type entry struct {
	Node
	State
	due      time.Time
	failures int // questions in a row without an answer
	asking   bool
}

// setNodes takes the nodes that Slurm knows now.
func (s *schedule) setNodes(nodes []Node, now time.Time) {
	known := make(map[string]*entry, len(nodes))
	list := make([]*entry, len(nodes))
	for i, n := range nodes {
		e := s.byName[n.Name]
		if e == nil {
			e = &entry{State: State{Node: n.Name}, due: now}
		}
		if e.Down && !n.Down || e.Address != n.Address {
			e.due, e.failures = now, 0
		}
		e.Node = n
		known[n.Name], list[i] = e, e
	}
	s.nodes, s.byName = list, known
}

// period is the time between two questions to a node that answers.
func (s *schedule) period() time.Duration {
	return max(shortestPeriod, time.Duration(len(s.nodes))*periodPerNode)
}

// question is a question to a node that is under way.
type question struct {
	Node
	of     *entry
	silent bool // the node gave no answer the last time
}

// dueQuestions returns the questions that are to be asked now, first to the nodes that have waited longest. The
// caller calls dueQuestions once a second, and noteResult once for each question.
func (s *schedule) dueQuestions(now time.Time) []question {
	var due []*entry
	for _, e := range s.nodes {
		if !e.asking && !e.due.After(now) && e.Address != "" {
			due = append(due, e)
		}
	}
	slices.SortStableFunc(due, func(a, b *entry) int { return a.due.Compare(b.due) })
	starts := max(leastStarts, int(2*time.Duration(len(s.nodes))*time.Second/s.period()))
	var taken []question
	for _, e := range due {
		if len(taken) == starts || s.underWay == atOnce {
			break
		}
		q := question{e.Node, e, e.failures > 0}
		if q.silent && s.silent == silentAtOnce {
			continue
		}
		s.underWay++
		if q.silent {
			s.silent++
		}
		e.asking = true
		taken = append(taken, q)
	}
	return taken
}

// noteResult notes the result of a question, and returns the node's state before and now.
func (s *schedule) noteResult(q question, reply *rpc.PingReply, err error, now time.Time) (before, after State) {
	s.underWay--
	if q.silent {
		s.silent--
	}
	e := q.of
	before = e.State
	e.asking = false
	answers := err == nil
	if e.Asked.IsZero() || e.Answers != answers {
		e.Since = now
	}
	e.Asked, e.Answers, e.Err = now, answers, err
	if answers {
		e.Heard, e.Reply, e.failures = now, reply, 0
		e.due = now.Add(s.period())
		return before, e.State
	}
	e.due = now.Add(min(firstRetry<<min(e.failures, 10), longestRetry))
	e.failures++
	return before, e.State
}
