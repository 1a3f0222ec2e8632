// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// State is the state of a node's proxyd, as far as known.
type State struct {
	Node    string
	Asked   time.Time      // the last time; zero: not yet
	Answers bool           // to that question
	Since   time.Time      // since when it answers, or does not
	Heard   time.Time      // the last answer; zero: no answer yet
	Reply   *rpc.PingReply // the last answer, which does not change any more; nil: no answer yet
	Err     error          // of the last question
	Problem string         // a fault of the node, though the proxyd answers; "": no known fault
}

// Counts sums up a report.
type Counts struct {
	Nodes    int
	Answer   int
	Silent   int // do not answer
	Unsound  int // answer, and have a problem
	Capsules int
	// LeastFree is the least free space of the store that a node sees, and the file system's size; nil: no node tells.
	LeastFree *rpc.Space
	Versions  map[string]int // of those that answer
}

// Report returns the states of all nodes, in the order in which Slurm lists these.
func (p *Poller) Report() []State {
	p.mu.Lock()
	all := make([]State, len(p.schedule.nodes))
	for i, e := range p.schedule.nodes {
		all[i] = e.State
	}
	p.mu.Unlock()
	usual := usualFolder(all)
	for i := range all {
		if s := &all[i]; s.Answers {
			s.Problem = FolderProblem(s.Reply.GetHealth())
			if id := s.Reply.GetHealth().GetSharedId(); s.Problem == "" && id != "" && id != usual {
				s.Problem = "the node works with another shared folder than most nodes"
			}
		}
	}
	return all
}

// usualFolder returns the shared folder that most nodes work with.
func usualFolder(all []State) string {
	count := map[string]int{}
	usual := ""
	for i := range all {
		id := all[i].Reply.GetHealth().GetSharedId()
		if id == "" {
			continue
		}
		if count[id]++; count[id] > count[usual] {
			usual = id
		}
	}
	return usual
}

// FolderProblem returns a fault of a node's shared folder or store; "": no fault, or the node does not tell. The text
// names no path: all users see it.
func FolderProblem(h *rpc.Health) string {
	switch h.GetShared() {
	case rpc.Health_UNMARKED:
		return "the shared folder is not there, or not mounted"
	case rpc.Health_OTHER:
		return "another folder is where the shared folder was"
	case rpc.Health_SILENT:
		return "the file system of the shared folder does not answer"
	case rpc.Health_UNREADABLE:
		return "the shared folder cannot be read"
	case rpc.Health_NO_STORE:
		return "the store is not there, or not mounted"
	case rpc.Health_OTHER_STORE:
		return "another store is where the store was"
	case rpc.Health_RIGHT, rpc.Health_SHARED_UNSPECIFIED:
		return ""
	}
	return "something is wrong with the shared folder" // the node's release is newer than this
}

// CountStates sums up a report.
func CountStates(all []State) Counts {
	c := Counts{Nodes: len(all), Versions: map[string]int{}}
	for i := range all {
		s := &all[i]
		if !s.Answers {
			if !s.Asked.IsZero() {
				c.Silent++
			}
			continue
		}
		c.Answer++
		c.Versions[s.Reply.GetVersion()]++
		if s.Problem != "" {
			c.Unsound++
		}
		h := s.Reply.GetHealth()
		c.Capsules += int(h.GetCapsules())
		if space := h.GetStore(); space != nil && (c.LeastFree == nil || space.GetFree() < c.LeastFree.GetFree()) {
			c.LeastFree = space
		}
	}
	return c
}
