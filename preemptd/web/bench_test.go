// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
)

// hugeSnapshot is a cluster of 10 000 nodes with 50 000 jobs.
func hugeSnapshot(number uint64, at time.Time) *sdk.Snapshot {
	s := newSnapshot(10_000, number, at)
	for n := len(s.Jobs); n < 50_000; n++ {
		s.Jobs = append(s.Jobs, fillNode(s, sdk.Job{Name: "sweep", User: "alice", State: sdk.Waiting, GPUs: 8, Request: 8, Capsules: 1, Fraction: 1, Eligible: at}, n))
	}
	return s
}

// BenchmarkTick is the cost of a tick of a large cluster: to the loop, and to the first browser.
func BenchmarkTick(b *testing.B) {
	page := web.New(web.Options{Keys: web.NewKeys(), State: func() web.State { return web.State{Role: web.Works} }})
	handler := page.Handler()
	start := time.Now()
	crowds := []*sdk.Snapshot{hugeSnapshot(1, start), hugeSnapshot(2, start.Add(time.Second))}
	b.Run("Tell", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			page.Tell(web.Tick{Snapshot: crowds[i%2]})
		}
	})
	for _, path := range []string{"/api/v1/cluster", "/api/v1/timeline"} {
		b.Run(path, func(b *testing.B) {
			var size int
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				page.Tell(web.Tick{Snapshot: crowds[i%2]})
				b.StartTimer()
				r := httptest.NewRequestWithContext(b.Context(), "GET", path, nil)
				r.Header.Set("Accept-Encoding", "gzip")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size)/1e6, "MB-sent")
		})
	}
}
