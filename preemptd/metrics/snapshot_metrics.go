// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// MaxAccounts is how many accounts are shown: the accounts that ask for the most GPUs.
const MaxAccounts = 100

var (
	snapshotTime    = newDesc("snapshot_timestamp_seconds", "When the cluster was last looked at.")
	nodes           = newDesc("nodes", "Nodes, by state: up, draining or down.", "state")
	gpus            = newDesc("gpus", "GPUs, by state: held, free or unusable.", "state")
	gpusHeld        = newDesc("gpus_held", "GPUs that jobs hold, by the jobs' tier.", "tier")
	jobs            = newDesc("jobs", "Jobs, by tier and state.", "tier", "state")
	actionsOpen     = newDesc("actions_open", "Jobs with an action under way, by the kind of action.", "kind")
	promised        = newDesc("tier_promised_ratio", "GPU fraction that a tier is promised.", "tier")
	delivered       = newDesc("tier_delivered_ratio", "GPU fraction that the tier's jobs got over the window; 1 if it has none.", "tier")
	promisedGPUs    = newDesc("tier_promised_gpus", "GPUs that waiting and running jobs of the tier and higher tiers are promised, fraction times requested GPUs.", "tier")
	promisableGPUs  = newDesc("tier_usable_gpus", "GPUs that are there to keep these promises: of nodes where jobs can start, or where jobs with such a promise still run.", "tier")
	below           = newDesc("tier_jobs_below_promise", "Jobs that have got less than they are promised, and cannot make up for it in this window.", "tier")
	accounts        = newDesc("account_delivered_ratio", "GPU fraction that the account's jobs got over the window.", "account")
	accountsOmitted = newDesc("accounts_omitted", "Accounts with jobs that are not shown, for there are too many.")
)

// snapshotMetrics are the metrics of the last snapshot.
type snapshotMetrics struct {
	shown atomic.Pointer[[]prometheus.Metric]
}

func (m *snapshotMetrics) clearMetrics() { m.shown.Store(nil) }

func (m *snapshotMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		snapshotTime, nodes, gpus, gpusHeld, jobs, actionsOpen, promised, promisedGPUs, promisableGPUs, delivered, below, accounts, accountsOmitted,
	} {
		ch <- d
	}
}

func (m *snapshotMetrics) Collect(ch chan<- prometheus.Metric) {
	if shown := m.shown.Load(); shown != nil {
		for _, metric := range *shown {
			ch <- metric
		}
	}
}

// showSnapshot makes the metrics of a snapshot.
func (m *snapshotMetrics) showSnapshot(s *sdk.Snapshot) {
	var all metricList
	all.addValue(snapshotTime, float64(s.Time.UnixNano())/float64(time.Second))
	all.addNodes(s)
	all.addJobs(s)
	all.addAccounts(s)
	m.shown.Store((*[]prometheus.Metric)(&all))
}

type metricList []prometheus.Metric

func (a *metricList) addValue(d *prometheus.Desc, v float64, labels ...string) {
	*a = append(*a, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
}

func (a *metricList) addNodes(s *sdk.Snapshot) {
	held := make([]sdk.GPUSet, len(s.Nodes))
	for i := range s.Jobs {
		for _, share := range s.Jobs[i].Shares {
			held[share.Node] |= share.GPUs
		}
	}
	var states [sdk.NodeStates]int
	var taken, free, unusable int
	for i := range s.Nodes {
		n := &s.Nodes[i]
		states[n.State]++
		taken += held[i].Count()
		free += (n.Usable() &^ held[i]).Count()
		unusable += (n.All() &^ n.Usable() &^ held[i]).Count()
	}
	for state, count := range states {
		a.addValue(nodes, float64(count), sdk.NodeState(state).String())
	}
	a.addValue(gpus, float64(taken), "held")
	a.addValue(gpus, float64(free), "free")
	a.addValue(gpus, float64(unusable), "unusable")
}

// tier sums up the jobs of a tier.
type tier struct {
	states [sdk.JobStates]int
	gpus   int
}

func (a *metricList) addJobs(s *sdk.Snapshot) {
	var tiers [sdk.Tiers]tier
	actions := map[string]int{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		t := &tiers[j.Tier]
		t.states[j.State]++
		for _, share := range j.Shares {
			t.gpus += share.GPUs.Count()
		}
		if j.Action != "" {
			actions[j.Action]++
		}
	}
	promises := s.PromisesByTier()
	for i, got := range s.StatsByTier() {
		t, name := &tiers[i], sdk.Tier(i).String()
		a.addValue(promised, s.Rules.Promised[i], name)
		a.addValue(promisedGPUs, promises[i].Promised, name)
		a.addValue(promisableGPUs, float64(promises[i].Usable), name)
		a.addValue(delivered, got.Delivered, name)
		a.addValue(below, float64(got.Below), name)
		a.addValue(gpusHeld, float64(t.gpus), name)
		for state, count := range t.states {
			a.addValue(jobs, float64(count), name, sdk.JobState(state).String())
		}
	}
	for kind, count := range actions {
		a.addValue(actionsOpen, float64(count), kind)
	}
}

func (a *metricList) addAccounts(s *sdk.Snapshot) {
	asked := map[string]int{}
	for i := range s.Jobs {
		asked[s.Jobs[i].Account] += s.Jobs[i].Request
	}
	all := slices.Clone(s.Accounts)
	slices.SortStableFunc(all, func(x, y sdk.Account) int { return cmp.Compare(asked[y.Name], asked[x.Name]) })
	shown := all[:min(len(all), MaxAccounts)]
	for _, one := range shown {
		a.addValue(accounts, one.Fraction, one.Name)
	}
	a.addValue(accountsOmitted, float64(len(all)-len(shown)))
}
