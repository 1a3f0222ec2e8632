// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
)

// What the conductor tells is served where the configuration says, and nowhere by default.
func TestMetrics(t *testing.T) {
	var log bytes.Buffer
	n := &node{cfg: &config.Config{}, log: slog.New(slog.NewJSONHandler(&log, nil))}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	if undo, err := n.serveMetrics(t.Context()); undo != nil || err != nil || log.Len() > 0 {
		t.Fatalf("nobody asked for it: %v %s", err, &log)
	}
	n.cfg.Metrics.Address = "127.0.0.1:0"
	undo, err := n.serveMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Address string }
	if err := json.Unmarshal(log.Bytes(), &said); err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	n.meter.Event("no checkpoint")
	resp, err := http.Get("http://" + said.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), `proxyd_job_events_total{event="no-checkpoint"} 1`) || !strings.Contains(string(text), `proxyd_phase_failures_total{phase="commit"} 0`) {
		t.Errorf("%v: %s", err, text)
	}
	undo()
	if resp, err := http.Get("http://" + said.Address + "/metrics"); err == nil {
		resp.Body.Close()
		t.Error("it is served after the end")
	}
}
