// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
)

// Options of Metrics.
type Options struct {
	Version string
	Journal string          // its file
	Kinds   []string        // of actions
	Ends    []string        // in which they can end
	Policy  func() []Policy // how policies do; nil: there are no policies
	Proxyds func() Proxyds  // how the nodes' proxyds are; nil: no node is asked
}

// Proxyds sums up the nodes' proxyds.
type Proxyds struct {
	Known                           bool // else the nodes were not asked yet, or another preemptd asks
	Sound, Unsound, Silent, Unasked int  // nodes; the unsound answer without the right shared folder
	Capsules                        int
	Versions                        map[string]int // nodes, of those that answer
	StoreKnown                      bool
	StoreFree, StoreSize            uint64 // of the node that sees the least
}

// Policy is how a policy does.
type Policy struct {
	Name     string
	Running  bool
	Starts   int            // of processes
	Failures map[string]int // by kind
}

// Metrics has preemptd's counters, safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	ticks     *prometheus.CounterVec
	tick      prometheus.Histogram
	decisions prometheus.Counter
	intents   *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	actions   *prometheus.CounterVec
	lasted    *prometheus.HistogramVec
	answers   *prometheus.HistogramVec
	requests  *prometheus.HistogramVec
	lost      *prometheus.CounterVec
	held      *prometheus.CounterVec
	userHeld  *prometheus.CounterVec
	userLost  *prometheus.CounterVec
	leader    prometheus.Gauge
	problems  prometheus.Gauge

	snapshot snapshotMetrics

	mu     sync.Mutex // of the fields below
	losses losses
	useful usefulness
}

// New makes the metrics, all at zero.
func New(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		ticks:    newCounters("ticks_total", "Looks at the cluster, by result: ok or failed.", "result"),
		tick: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "tick_duration_seconds", Help: "Duration of a look at the cluster, with the decision and the start of its actions.", Buckets: quick,
		}),
		decisions: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "decisions_total", Help: "Times that the policies were asked."}),
		intents:   newCounters("intents_total", "Intents of policies, by their outcome.", "policy", "verb", "verdict"),
		rejected:  newCounters("rejections_total", "Intents of policies that were rejected, by the invariant that they break.", "policy", "invariant"),
		actions:   newCounters("actions_total", "Actions that ended, by kind and by the state in which they ended.", "kind", "state"),
		lasted:    newDurations("action_duration_seconds", "How long actions took, from their request to their end.", slow, "kind"),
		answers:   newDurations("policy_answer_duration_seconds", "How long policies took to answer.", quick, "policy"),
		requests:  newDurations("slurmrestd_request_duration_seconds", "Requests to slurmrestd, by their outcome.", quick, "method", "endpoint", "result"),
		lost:      newCounters("lost_gpu_seconds_total", "GPU time of running jobs that brought them nothing, by tier and reason.", "tier", "reason"),
		held:      newCounters("held_gpu_seconds_total", "GPU time that jobs held, by tier.", "tier"),
		userHeld:  newCounters("user_held_gpu_seconds_total", "GPU time that jobs held, by user.", "user"),
		userLost:  newCounters("user_lost_gpu_seconds_total", "GPU time of running jobs that brought them nothing, by user.", "user"),
		leader:    newGauge("leader", "1 if this preemptd works, 0 if it waits for another preemptd's mandate."),
		problems:  newGauge("problems", "Policies and proxyds with which something was wrong at the last look."),
	}
	m.registry.MustRegister(m.ticks, m.tick, m.decisions, m.intents, m.rejected, m.actions, m.lasted, m.answers, m.requests, m.lost, m.held, m.userHeld, m.userLost,
		m.leader, m.problems,
		&m.snapshot, &scrapedMetrics{o}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.showZeros(o)
	return m
}

// showZeros shows series of events that have not happened yet: no increase can be seen of a series that begins with
// its first event.
func (m *Metrics) showZeros(o Options) {
	for _, result := range []string{"ok", "failed"} {
		m.ticks.WithLabelValues(result)
	}
	for _, kind := range o.Kinds {
		for _, state := range o.Ends {
			m.actions.WithLabelValues(kind, state)
		}
	}
	for tier := range sdk.Tier(sdk.Tiers) {
		m.held.WithLabelValues(tier.String())
		for _, r := range reasons {
			m.lost.WithLabelValues(tier.String(), string(r))
		}
	}
}

// prefix begins every name.
const prefix = "preemptd_"

// Buckets, in seconds: quick for requests, answers and ticks, slow for actions.
var (
	quick = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	slow  = []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600}
)

func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

func newDurations(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
}

func newGauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Leads says whether this preemptd works. A preemptd that does not work has no snapshot of the cluster.
func (m *Metrics) Leads(is bool) {
	m.leader.Set(0)
	if is {
		m.leader.Set(1)
		return
	}
	m.snapshot.clearMetrics()
	m.problems.Set(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.losses = losses{}
}

// Ticked counts a look.
func (m *Metrics) Ticked(took time.Duration, err error) {
	m.tick.Observe(took.Seconds())
	if err != nil {
		m.ticks.WithLabelValues("failed").Inc()
		return
	}
	m.ticks.WithLabelValues("ok").Inc()
}

// Decided counts a decision, taken on a snapshot. Snapshots come in their order.
func (m *Metrics) Decided(s *sdk.Snapshot, problems int) {
	m.decisions.Inc()
	m.problems.Set(float64(problems))
	m.snapshot.showSnapshot(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.losses.countLosses(s, tally{
		lost: func(j *sdk.Job, r reason, gpuSeconds float64) {
			m.lost.WithLabelValues(j.Tier.String(), string(r)).Add(gpuSeconds)
			m.countTime(s.Time, j, gputime.Time{Lost: gpuSeconds})
		},
		held: func(j *sdk.Job, gpuSeconds float64) { m.countTime(s.Time, j, gputime.Time{Held: gpuSeconds}) },
	})
}

// Intent counts an intent of a policy, by the verdict on the intent.
func (m *Metrics) Intent(policy string, v sdk.Verb, verdict string) {
	m.intents.WithLabelValues(policy, v.String(), verdict).Inc()
}

// Rejected counts an intent that breaks an invariant.
func (m *Metrics) Rejected(policy string, v sdk.Verb, invariant string) {
	verb := v.String()
	if _, err := sdk.ParseVerb(verb); err != nil {
		verb = "unknown" // a policy may say any number
	}
	m.intents.WithLabelValues(policy, verb, "rejected").Inc()
	m.rejected.WithLabelValues(policy, invariant).Inc()
}

// Ended counts an action that ended.
func (m *Metrics) Ended(kind, state string, took time.Duration) {
	m.actions.WithLabelValues(kind, state).Inc()
	m.lasted.WithLabelValues(kind).Observe(took.Seconds())
}

// Answered counts an answer of a policy, or a missing answer.
func (m *Metrics) Answered(policy string, took time.Duration) {
	m.answers.WithLabelValues(policy).Observe(took.Seconds())
}

// Requested counts a request to slurmrestd.
func (m *Metrics) Requested(method, endpoint, result string, took time.Duration) {
	m.requests.WithLabelValues(method, endpoint, result).Observe(took.Seconds())
}
