// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapedMetrics are the metrics that are looked up at each scrape.
type scrapedMetrics struct{ o Options }

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

var (
	build          = newDesc("build_info", "1, with the version.", "version")
	journalSize    = newDesc("journal_size_bytes", "The journal, with its write-ahead log.")
	policyUp       = newDesc("policy_up", "1 if the policy has a process.", "policy")
	policyStarts   = newDesc("policy_starts_total", "Processes of the policy that were started.", "policy")
	proxyds        = newDesc("proxyds", "Nodes, by the state of their proxyd: sound, unsound (it answers, and has not the right shared folder), silent (it does not answer) or unasked.", "state")
	proxydVersions = newDesc("proxyd_versions", "Nodes whose proxyd answers, by its version.", "version")
	capsules       = newDesc("capsules", "Capsules that run, as the proxyds that answer say.")
	storeFree      = newDesc("store_free_bytes", "Free bytes of the store's file system: the lowest number that a node reports.")
	storeSize      = newDesc("store_size_bytes", "Size of that file system.")
	policyFailures = newDesc("policy_failures_total", "Failures of the policy, by kind: refusal, nonsense, crash, hang (no answer in time) or flood.", "policy", "kind")
)

func (m *scrapedMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		build, journalSize, policyUp, policyStarts, policyFailures, proxyds, proxydVersions, capsules, storeFree, storeSize,
	} {
		ch <- d
	}
}

func (m *scrapedMetrics) Collect(ch chan<- prometheus.Metric) {
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	value(build, prometheus.GaugeValue, 1, m.o.Version)
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		if st, err := os.Stat(m.o.Journal + suffix); err == nil {
			size += st.Size()
		}
	}
	value(journalSize, prometheus.GaugeValue, float64(size))
	m.collectProxyds(func(d *prometheus.Desc, v float64, labels ...string) { value(d, prometheus.GaugeValue, v, labels...) })
	if m.o.Policy == nil {
		return
	}
	for _, p := range m.o.Policy() {
		value(policyUp, prometheus.GaugeValue, boolValue(p.Running), p.Name)
		value(policyStarts, prometheus.CounterValue, float64(p.Starts), p.Name)
		for kind, times := range p.Failures {
			value(policyFailures, prometheus.CounterValue, float64(times), p.Name, kind)
		}
	}
}

func (m *scrapedMetrics) collectProxyds(value func(d *prometheus.Desc, v float64, labels ...string)) {
	if m.o.Proxyds == nil {
		return
	}
	p := m.o.Proxyds()
	if !p.Known {
		return
	}
	for state, count := range map[string]int{"sound": p.Sound, "unsound": p.Unsound, "silent": p.Silent, "unasked": p.Unasked} {
		value(proxyds, float64(count), state)
	}
	for version, count := range p.Versions {
		value(proxydVersions, float64(count), version)
	}
	value(capsules, float64(p.Capsules))
	if p.StoreKnown {
		value(storeFree, float64(p.StoreFree))
		value(storeSize, float64(p.StoreSize))
	}
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
