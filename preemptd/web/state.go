// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// stateJSON is the answer to /api/v1/state.
type stateJSON struct {
	Version   string         `json:"version"`
	Role      Role           `json:"role"`
	Cluster   string         `json:"cluster"`
	Holder    string         `json:"holder"` // the preemptd that works; "": no preemptd
	Term      int64          `json:"term"`
	Interval  float64        `json:"interval"` // seconds
	Number    uint64         `json:"number"`   // of the last tick; 0: no tick yet
	Ticked    int64          `json:"ticked"`
	Requests  bool           `json:"requests"` // people can ask
	Policies  []policyJSON   `json:"policies"`
	Totals    totalsJSON     `json:"totals"`
	Proxyds   proxydsJSON    `json:"proxyds"`
	Tiers     []tierJSON     `json:"tiers"`     // highest first
	Useful    []usefulJSON   `json:"useful"`    // by day, newest first
	UnderWay  []actionJSON   `json:"under_way"` // oldest first
	Recent    []actionJSON   `json:"recent"`    // ended, newest first
	Decisions []decisionJSON `json:"decisions"` // newest first
	Problem   string         `json:"problem,omitempty"`
}

type policyJSON struct {
	Name     string `json:"name"`
	Running  bool   `json:"running"`
	Failures int32  `json:"failures"`
	Problem  string `json:"problem,omitempty"`
	Until    int64  `json:"until"` // the policy rests
}

// totalsJSON counts the cluster.
type totalsJSON struct {
	Nodes   int `json:"nodes"`
	Up      int `json:"up"`
	GPUs    int `json:"gpus"`
	Used    int `json:"used"`   // by jobs
	Usable  int `json:"usable"` // on nodes where jobs can start
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Held    int `json:"held"` // and deferred
}

// tierJSON is how far the jobs of a tier got their promise.
type tierJSON struct {
	Name      string  `json:"name"`
	Promised  float64 `json:"promised"`
	Delivered float64 `json:"delivered"` // over the window, of all its jobs together, by their requests
	Counted   bool    `json:"counted"`   // some time was counted
	Running   int     `json:"running"`
	Waiting   int     `json:"waiting"`
	GPUs      int     `json:"gpus"`
	Below     int     `json:"below"` // jobs that got less than is promised, and cannot make up for it in this window
	// Unkept says that the promises to its jobs and to those of higher tiers cannot all be kept; absent: they can.
	Unkept string `json:"unkept,omitempty"`
}

// actionJSON is an action as all users may see the action: its problem is left out.
type actionJSON struct {
	ID      int64  `json:"id"`
	Kind    string `json:"kind"`
	Job     int64  `json:"job"`
	Who     string `json:"who"`
	Why     string `json:"why"`
	State   string `json:"state"`
	Step    string `json:"step"`
	Doing   string `json:"doing"` // the work of the step, in words
	Created int64  `json:"created"`
	Ended   int64  `json:"ended"`
}

// maxRecent is how many ended actions the page lists.
const maxRecent = 50

func (s *Server) getState(w http.ResponseWriter, r *http.Request) {
	d, err := s.state.getOrBuild(nil, time.Now(), func() (any, error) { return s.describeState(context.WithoutCancel(r.Context())), nil })
	if err != nil {
		refuseRequest(w, http.StatusInternalServerError, refusal{Kind: "internal", Error: err.Error()})
		return
	}
	d.sendTo(w, r)
}

func (s *Server) describeState(ctx context.Context) *stateJSON {
	now := s.opt.State()
	all := &stateJSON{
		Version: s.opt.Version, Role: now.Role, Cluster: now.Cluster, Interval: now.Interval.Seconds(), Requests: now.Requests != nil,
		Policies: policyList(now.Policies), UnderWay: []actionJSON{}, Recent: []actionJSON{}, Tiers: []tierJSON{},
		Useful: usefulList(now.Useful), Proxyds: countProxyds(proxydsNow(&now)),
	}
	if now.Journal != nil {
		if err := s.addJournal(ctx, all, now.Journal); err != nil {
			s.opt.Log.Warn("the page cannot read the journal", "error", err)
			all.Problem = "the journal cannot be read; preemptd's log says why"
		}
	}
	if last := s.currentSnapshot(&now); last != nil {
		all.Number, all.Ticked = last.Number, last.Time.Unix()
		all.Totals, all.Tiers = countTotals(last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all.Decisions = s.decisions.newestFirst()
	return all
}

func policyList(policies func() []*rpc.Policy) []policyJSON {
	all := []policyJSON{}
	if policies == nil {
		return all
	}
	for _, p := range policies() {
		all = append(all, policyJSON{p.GetName(), p.GetRunning(), p.GetFailures(), p.GetProblem(), secondsOf(p.GetUntil())})
	}
	return all
}

func secondsOf(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.GetSeconds()
}

// addJournal fills in the parts that come from the journal.
func (s *Server) addJournal(ctx context.Context, all *stateJSON, j Journal) error {
	mandate, err := j.Mandate(ctx)
	if err != nil {
		return err
	}
	if !mandate.Expired {
		all.Holder, all.Term = mandate.Name, mandate.Term
	}
	open, err := j.Unfinished(ctx)
	if err != nil {
		return err
	}
	for i := range open {
		all.UnderWay = append(all.UnderWay, s.publicAction(&open[i]))
	}
	past, err := j.History(ctx, 0, maxRecent)
	if err != nil {
		return err
	}
	for i := range past {
		if past[i].State.Ended() {
			all.Recent = append(all.Recent, s.publicAction(&past[i]))
		}
	}
	return nil
}

func (s *Server) publicAction(a *journal.Action) actionJSON {
	doing := a.Step
	if s.opt.StepWords != nil {
		doing = s.opt.StepWords(a.Step)
	}
	return actionJSON{a.ID, a.Kind, a.Job, a.Who, a.Why, string(a.State), a.Step, doing, unixSeconds(a.Created), unixSeconds(a.Ended)}
}

func unixSeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// countTotals sums up a snapshot.
func countTotals(s *sdk.Snapshot) (totalsJSON, []tierJSON) {
	var sum totalsJSON
	for i := range s.Nodes {
		n := &s.Nodes[i]
		sum.Nodes++
		sum.GPUs += len(n.GPUs)
		sum.Usable += n.Usable().Count()
		if n.State == sdk.NodeUp {
			sum.Up++
		}
	}
	var tiers [sdk.Tiers]tierJSON
	for i := range s.Jobs {
		j := &s.Jobs[i]
		t := &tiers[j.Tier]
		held := 0
		for _, share := range j.Shares {
			held += share.GPUs.Count()
		}
		t.GPUs += held
		sum.Used += held
		switch j.State {
		case sdk.Running, sdk.Suspended, sdk.Leaving:
			t.Running++
			sum.Running++
		case sdk.Waiting:
			t.Waiting++
			sum.Waiting++
		case sdk.Held, sdk.Deferred:
			sum.Held++
		}
	}
	promises := s.PromisesByTier()
	for i, got := range s.StatsByTier() {
		t := &tiers[i]
		t.Name, t.Promised = sdk.Tier(i).String(), s.Rules.Promised[i] //nolint:gosec // there are three
		t.Delivered, t.Counted, t.Below = got.Delivered, got.Counted, got.Below
		t.Unkept = promises[i].Unkept()
	}
	all := tiers[:]
	slices.Reverse(all)
	return sum, all
}
