// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers/strangerstest"
)

// TestManyMonitors: connections that stay after a request, as many as the server has at most and more, keep no monitor out: an
// old connection is closed.
func TestManyMonitors(t *testing.T) {
	var log bytes.Buffer
	c := &controller{daemonOptions: daemonOptions{log: slog.New(slog.NewJSONHandler(&log, nil))}, metrics: metrics.New(metrics.Options{})}
	cfg := &config.Config{}
	cfg.Metrics.Address = "127.0.0.1:0"
	c.cfg.Store(cfg)
	undo, err := c.serveMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	strangerstest.CheckMonitorsMakeRoom(t, strangerstest.LoggedAddress(t, log.Bytes()), maxMonitors)
}
