// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// clusterJSON is the answer to /api/v1/cluster.
type clusterJSON struct {
	Number uint64     `json:"number"` // of the tick; 0: no tick yet
	Time   int64      `json:"time"`
	Nodes  []nodeJSON `json:"nodes"` // in order of names, numbers in them as numbers: n2 before n10
	Jobs   []jobJSON  `json:"jobs"`  // in order of ids
}

type nodeJSON struct {
	Name       string   `json:"name"`
	State      string   `json:"state"` // up, draining, down
	Reason     string   `json:"reason,omitempty"`
	GPUs       int      `json:"gpus"`
	Kind       string   `json:"kind,omitempty"` // of the first GPU
	Bad        []int    `json:"bad,omitempty"`  // GPUs that cannot be used
	Partitions []string `json:"partitions,omitempty"`
	Rack       string   `json:"rack,omitempty"`
}

type jobJSON struct {
	ID        int64       `json:"id"`
	Label     string      `json:"label"` // as squeue names the job
	Name      string      `json:"name"`
	User      string      `json:"user"`
	Account   string      `json:"account,omitempty"`
	Partition string      `json:"partition,omitempty"`
	QOS       string      `json:"qos,omitempty"`
	Tier      string      `json:"tier"`
	State     string      `json:"state"` // waiting, deferred, held, running, suspended, leaving
	HeldBy    string      `json:"held_by,omitempty"`
	Action    string      `json:"action,omitempty"`   // preemptd's action under way on the job
	Obstacle  string      `json:"obstacle,omitempty"` // why the job cannot be preempted; absent: it can
	Nodes     int         `json:"nodes"`              // that its user asked for
	Request   int         `json:"request"`            // GPUs that its user asked for
	GPUs      int         `json:"gpus"`               // that the job has, or waits for
	Leased    int         `json:"leased,omitempty"`   // of them, those that other jobs of its user lend it
	Promised  float64     `json:"promised"`
	Fraction  float64     `json:"fraction"`
	Below     bool        `json:"below,omitempty"` // it got less than is promised, and cannot make up for it in this window
	Restarts  int         `json:"restarts"`
	Submitted int64       `json:"submitted"`
	Eligible  int64       `json:"eligible"`
	Started   int64       `json:"started"`
	Saved     int64       `json:"saved"` // its newest checkpoint
	Shares    []shareJSON `json:"shares,omitempty"`
}

type shareJSON struct {
	Node int32 `json:"node"` // place in nodes
	GPUs []int `json:"gpus"`
}

func (s *Server) getCluster(w http.ResponseWriter, r *http.Request) {
	now := s.opt.State()
	last := s.currentSnapshot(&now)
	d, err := s.cluster.getOrBuild(last, time.Now(), func() (any, error) { return clusterOf(last, s.opt.Racks), nil })
	if err != nil {
		refuseRequest(w, http.StatusInternalServerError, refusal{Kind: "internal", Error: err.Error()})
		return
	}
	d.sendTo(w, r)
}

// holderText is the holder of a job, as the page has it.
func holderText(h sdk.Holder) string {
	switch h {
	case sdk.HeldByUser:
		return "its user"
	case sdk.HeldByOperator:
		return "an operator"
	}
	return h.String()
}

func clusterOf(s *sdk.Snapshot, racks map[string]string) *clusterJSON {
	all := &clusterJSON{Nodes: []nodeJSON{}, Jobs: []jobJSON{}}
	if s == nil {
		return all
	}
	all.Number, all.Time = s.Number, s.Time.Unix()
	order := make([]int32, len(s.Nodes))
	for i := range order {
		order[i] = int32(i) //nolint:gosec // a place in memory
	}
	slices.SortFunc(order, func(a, b int32) int { return compareNames(s.Nodes[a].Name, s.Nodes[b].Name) })
	places := make([]int32, len(s.Nodes)) // where a node of the snapshot is here
	for at, i := range order {
		places[i] = int32(at) //nolint:gosec // a place in memory
		n := &s.Nodes[i]
		made := nodeJSON{Name: n.Name, State: n.State.String(), Reason: n.Reason, GPUs: len(n.GPUs), Partitions: n.Partitions, Rack: racks[n.Name]}
		for g := range n.GPUs {
			if g == 0 {
				made.Kind = n.GPUs[g].Kind
			}
			if n.GPUs[g].Health == sdk.HealthBad {
				made.Bad = append(made.Bad, g)
			}
		}
		all.Nodes = append(all.Nodes, made)
	}
	for i := range s.Jobs {
		made := jobOf(&s.Jobs[i])
		made.Below = s.Jobs[i].Budget(s.Rules) < 0
		for k := range made.Shares {
			made.Shares[k].Node = places[made.Shares[k].Node]
		}
		slices.SortFunc(made.Shares, func(a, b shareJSON) int { return cmp.Compare(a.Node, b.Node) })
		all.Jobs = append(all.Jobs, made)
	}
	return all
}

// compareNames orders names as people count: the digits in them are numbers.
func compareNames(a, b string) int {
	restA, restB := a, b
	for restA != "" && restB != "" {
		numberA, numberB := leadingDigits(restA), leadingDigits(restB)
		if numberA == "" || numberB == "" {
			if restA[0] != restB[0] {
				return cmp.Compare(restA[0], restB[0])
			}
			restA, restB = restA[1:], restB[1:]
			continue
		}
		shortA, shortB := strings.TrimLeft(numberA, "0"), strings.TrimLeft(numberB, "0")
		if order := cmp.Or(cmp.Compare(len(shortA), len(shortB)), cmp.Compare(shortA, shortB)); order != 0 {
			return order
		}
		restA, restB = restA[len(numberA):], restB[len(numberB):]
	}
	return cmp.Or(cmp.Compare(len(restA), len(restB)), cmp.Compare(a, b))
}

func leadingDigits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

func jobOf(j *sdk.Job) jobJSON {
	made := jobJSON{
		ID: int64(j.ID), Label: j.Label, Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS,
		Tier: j.Tier.String(), State: j.State.String(), HeldBy: holderText(j.HeldBy), Action: j.Action, Obstacle: j.Obstacle,
		Nodes: j.Capsules, Request: j.Request, GPUs: j.GPUs, Leased: j.Leased, Promised: j.Promised, Fraction: j.Fraction, Restarts: j.Restarts,
		Submitted: unixSeconds(j.Submitted), Eligible: unixSeconds(j.Eligible), Started: unixSeconds(j.Started), Saved: unixSeconds(j.Checkpoint.At),
	}
	for _, share := range j.Shares {
		one := shareJSON{Node: share.Node, GPUs: []int{}}
		for set := uint64(share.GPUs); set != 0; set &= set - 1 {
			one.GPUs = append(one.GPUs, bits.TrailingZeros64(set))
		}
		made.Shares = append(made.Shares, one)
	}
	return made
}
