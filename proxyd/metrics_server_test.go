// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
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

// TestSpaceMetrics: the space of the store and of the stage is measured at each scrape; a shared folder that is not the
// right one any more has none.
func TestSpaceMetrics(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	folder, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: &config.Config{Shared: dir, Staging: config.Staging{Folder: lib}}, shared: folder, log: slog.New(slog.DiscardHandler)}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	scrape := func() string {
		n.meter.measureSpace(t.Context())
		w := httptest.NewRecorder()
		n.meter.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	there := regexp.MustCompile(`(?m)^proxyd_(shared_up 1|(store|stage)_(size|free)_bytes [1-9].*)$`)
	if text := scrape(); len(there.FindAllString(text, -1)) != 5 {
		t.Error(text)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if text := scrape(); !strings.Contains(text, "proxyd_shared_up 0\n") || strings.Contains(text, "proxyd_store_") || !strings.Contains(text, "proxyd_stage_free_bytes") {
		t.Error(text)
	}
}
