// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has proxyd's counts for Prometheus: of the jobs that its node leads, without
// names of jobs. proxyd's main reports the events, and decides where Handler is served.
package metrics

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics has proxyd's counts. It is safe for concurrent use.
type Metrics struct {
	registry    *prometheus.Registry
	events      *prometheus.CounterVec
	checkpoints prometheus.Histogram
	phases      *prometheus.HistogramVec
	failures    *prometheus.CounterVec
	logical     prometheus.Histogram
	stored      prometheus.Histogram
	devices     deviceTotals
	spaces      spaces
}

const prefix = "proxyd_"

// Buckets: seconds, and bytes from a mebibyte to a tebibyte.
var (
	seconds = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	sizes   = prometheus.ExponentialBuckets(1<<20, 4, 11)
)

// New returns Metrics with all counts at zero. events and phases are the names of all events and
// phases.
func New(version string, events, phases []string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "job_events_total", Help: "Events of jobs that this node leads, as in their time lines.",
		}, []string{"event"}),
		checkpoints: newHistogram("checkpoint_duration_seconds", "How long checkpoints took, until the job could go on or leave.", seconds),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "phase_duration_seconds", Help: "How long phases of checkpoints took that succeeded.", Buckets: seconds,
		}, []string{"phase"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "phase_failures_total", Help: "Phases in which checkpoints failed; their jobs ran on.",
		}, []string{"phase"}),
		logical: newHistogram("checkpoint_logical_bytes", "Bytes that checkpoints hold, before compression and sharing.", sizes),
		stored:  newHistogram("checkpoint_stored_bytes", "Bytes that checkpoints added to the store.", sizes),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "build_info", Help: "1, with the version."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.registry.MustRegister(info, m.events, m.checkpoints, m.phases, m.failures, m.logical, m.stored,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.devices.registerCounters(m.registry)
	m.registry.MustRegister(&m.spaces)
	for _, e := range events {
		m.events.WithLabelValues(eventLabel(e))
	}
	for _, p := range phases {
		m.failures.WithLabelValues(p)
	}
	return m
}

func newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
}

// eventLabel returns the label of an event: a single word.
func eventLabel(event string) string { return strings.ReplaceAll(event, " ", "-") }

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Event counts an event of a time line.
func (m *Metrics) Event(what string) { m.events.WithLabelValues(eventLabel(what)).Inc() }

// Phase counts a phase of a checkpoint.
func (m *Metrics) Phase(name string, took time.Duration, failed bool) {
	if failed {
		m.failures.WithLabelValues(name).Inc()
		return
	}
	m.phases.WithLabelValues(name).Observe(took.Seconds())
}

// Checkpoint counts a completed checkpoint.
func (m *Metrics) Checkpoint(took time.Duration) { m.checkpoints.Observe(took.Seconds()) }

// Stored counts a checkpoint that is in the store.
func (m *Metrics) Stored(logical, stored int64) {
	m.logical.Observe(float64(logical))
	m.stored.Observe(float64(stored))
}
