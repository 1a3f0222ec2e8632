// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Space is the size of a file system, and how much of that users may still fill, in bytes.
type Space struct{ Size, Free uint64 }

// spaces has the last findings about the file systems on which checkpoints lie.
type spaces struct {
	mu           sync.Mutex
	sharedUp     bool
	store, stage *Space // nil: not known, or not configured
}

var (
	sharedUp  = newDesc("shared_up", "1 if the shared folder and its store are there, are the right ones, and answer.")
	storeSize = newDesc("store_size_bytes", "Size of the file system of the store.")
	storeFree = newDesc("store_free_bytes", "What is free there.")
	stageSize = newDesc("stage_size_bytes", "Size of the file system of this node's stage.")
	stageFree = newDesc("stage_free_bytes", "What is free there.")
)

func newDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, nil, nil)
}

// Spaces takes the present findings: whether the shared folder is there and answers, and the space for checkpoints;
// nil if a space is not known. An unknown space has no series: an old value would look like a new value.
func (m *Metrics) Spaces(sharedUp bool, store, stage *Space) {
	s := &m.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sharedUp, s.store, s.stage = sharedUp, store, stage
}

// Describe implements prometheus.Collector.
func (s *spaces) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sharedUp, storeSize, storeFree, stageSize, stageFree} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *spaces) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	send := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	up := 0.0
	if s.sharedUp {
		up = 1
	}
	send(sharedUp, up)
	if s.store != nil {
		send(storeSize, float64(s.store.Size))
		send(storeFree, float64(s.store.Free))
	}
	if s.stage != nil {
		send(stageSize, float64(s.stage.Size))
		send(stageFree, float64(s.stage.Free))
	}
}
