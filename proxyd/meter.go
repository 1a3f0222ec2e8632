// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// meter is what the conductor tells; sizes it looks up.
type meter struct {
	*metrics.Metrics
	n *node
}

// Stored counts a checkpoint by what its manifest says.
func (m *meter) Stored(ctx context.Context, id store.ID) {
	r, err := m.n.store.Open(ctx, id)
	if err != nil { // it was deleted meanwhile, or this daemon ends
		m.n.log.Debug("size of a checkpoint", "checkpoint", id.String(), "error", err)
		return
	}
	defer r.Close()
	stats := r.Manifest().Stats
	m.Metrics.Stored(stats.Logical, stats.Stored)
}

// serveMetrics listens for Prometheus. Nothing that is done depends on it.
func (n *node) serveMetrics(ctx context.Context) (func(), error) {
	if n.cfg.Metrics.Address == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", n.cfg.Metrics.Address)
	if err != nil {
		n.log.Error("nobody can ask for metrics", "error", err)
		return nil, nil
	}
	n.log.Info("metrics", "address", l.Addr().String())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.meter.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("metrics", "error", err)
		}
	}()
	return func() { server.Close(); <-ended }, nil
}
