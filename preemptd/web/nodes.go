// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"math/bits"
	"net/http"
	"slices"
	"time"
)

// Proxyd is how a node's proxyd is, as of the last question to that node.
type Proxyd struct {
	Node     string
	Asked    bool      // false: not yet
	Answers  bool      // the last time
	Since    time.Time // since when it answers, or does not
	Heard    time.Time // the last answer; zero: no answer yet
	Version  string    // as in the last answer, like all below
	Problem  string    // a fault of the node, though the proxyd answers
	Says     bool      // false: an older release, which does not tell the fields below
	Store    Space     // Size 0: not known
	Stage    Space     // Size 0: not known, or no stage
	Devices  string
	Capsules int
}

// Space is the size of a file system, and how much of that is free, in bytes.
type Space struct{ Size, Free uint64 }

// nodesJSON is the answer to /api/v1/nodes.
type nodesJSON struct {
	Nodes []proxydJSON `json:"nodes"` // in the order of names, as in the cluster's answer
}

// proxydJSON is a node's proxyd. Of a proxyd that does not answer it has the last answer.
type proxydJSON struct {
	Name     string     `json:"name"`
	Proxyd   string     `json:"proxyd"`            // answers, silent, or unasked: not asked yet
	Since    int64      `json:"since"`             // since when it answers, or does not
	Heard    int64      `json:"heard,omitempty"`   // of a silent proxyd: the last answer; absent: no answer yet
	Problem  string     `json:"problem,omitempty"` // a fault of the node, though its proxyd answers
	Version  string     `json:"version,omitempty"`
	Says     bool       `json:"says"` // false: the proxyd is of a release without the fields below, or never answered
	Store    *spaceJSON `json:"store,omitempty"`
	Stage    *spaceJSON `json:"stage,omitempty"`
	Devices  string     `json:"devices,omitempty"` // none, soft, cuda
	Capsules int        `json:"capsules"`
}

type spaceJSON struct {
	Size uint64 `json:"size"`
	Free uint64 `json:"free"`
}

// proxydsJSON counts the proxyds of a cluster by their states.
type proxydsJSON struct {
	Nodes   int `json:"nodes"`
	Answer  int `json:"answer"`
	Silent  int `json:"silent"`
	Unsound int `json:"unsound"` // answer, and have a problem
}

func (s *Server) getNodes(w http.ResponseWriter, r *http.Request) {
	now := s.opt.State()
	d, err := s.nodes.getOrBuild(now.Role, time.Now(), func() (any, error) { return nodesOf(proxydsNow(&now)), nil })
	if err != nil {
		refuseRequest(w, http.StatusInternalServerError, refusal{Kind: "internal", Error: err.Error()})
		return
	}
	d.sendTo(w, r)
}

// proxydsNow are the proxyds to show: a preemptd that waits for another asks no node.
func proxydsNow(now *State) []Proxyd {
	if now.Proxyds == nil || now.Role != Works && now.Role != DryRun {
		return nil
	}
	return now.Proxyds()
}

func nodesOf(all []Proxyd) *nodesJSON {
	list := &nodesJSON{Nodes: make([]proxydJSON, len(all))}
	for i := range all {
		p := &all[i]
		made := proxydJSON{
			Name: p.Node, Proxyd: "answers", Since: unixSeconds(p.Since), Problem: p.Problem, Version: p.Version, Says: p.Says, Devices: p.Devices,
			Capsules: p.Capsules, Store: roundSpace(p.Store), Stage: roundSpace(p.Stage),
		}
		switch {
		case !p.Asked:
			made.Proxyd = "unasked"
		case !p.Answers:
			made.Proxyd, made.Heard = "silent", unixSeconds(p.Heard)
		}
		list.Nodes[i] = made
	}
	slices.SortFunc(list.Nodes, func(a, b proxydJSON) int { return compareNames(a.Name, b.Name) })
	return list
}

// roundSpace leaves ten bits of the free space: else the answer would change, and be sent again, with each block that
// is written.
func roundSpace(s Space) *spaceJSON {
	if s.Size == 0 {
		return nil
	}
	noise := max(0, bits.Len64(s.Free)-10)
	return &spaceJSON{s.Size, s.Free >> noise << noise}
}

func countProxyds(all []Proxyd) proxydsJSON {
	c := proxydsJSON{Nodes: len(all)}
	for i := range all {
		switch p := &all[i]; {
		case p.Asked && !p.Answers:
			c.Silent++
		case p.Answers:
			c.Answer++
			if p.Problem != "" {
				c.Unsound++
			}
		}
	}
	return c
}
