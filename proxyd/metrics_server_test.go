// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers/strangerstest"
)

// TestMetrics: the conductor's reports are served at the configured address, and at no address by
// default.
func TestMetrics(t *testing.T) {
	var log bytes.Buffer
	n := &node{cfg: &config.Config{}, log: slog.New(slog.NewJSONHandler(&log, nil)), conductorWait: newConductorWait(t.Context().Done(), nil)}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	if undo, err := n.serveMetrics(t.Context()); undo != nil || err != nil || log.Len() > 0 {
		t.Fatalf("metrics are served, or an error is logged, though no address is configured: %v %s", err, &log)
	}
	n.cfg.Metrics.Address = "127.0.0.1:0"
	undo, err := n.serveMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Address string }
	if err := json.Unmarshal(log.Bytes(), &said); err != nil {
		t.Fatalf("parse the log: %v: %s", err, &log)
	}
	n.meter.Event("no checkpoint")
	resp, err := http.Get("http://" + said.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), `proxyd_job_events_total{event="no-checkpoint"} 1`) || !strings.Contains(string(text), `proxyd_phase_failures_total{phase="commit"} 0`) {
		t.Errorf("read the metrics: %v: %s", err, text)
	}
	undo()
	if resp, err := http.Get("http://" + said.Address + "/metrics"); err == nil {
		resp.Body.Close()
		t.Error("metrics are still served after the server has ended")
	}
}

// TestManyMonitors: connections that stay after a request, as many as the server has at most and more, keep no monitor out: an
// old connection is closed.
func TestManyMonitors(t *testing.T) {
	var log bytes.Buffer
	n := &node{cfg: &config.Config{}, log: slog.New(slog.NewJSONHandler(&log, nil)), conductorWait: newConductorWait(t.Context().Done(), nil)}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	n.cfg.Metrics.Address = "127.0.0.1:0"
	undo, err := n.serveMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	strangerstest.CheckMonitorsMakeRoom(t, strangerstest.LoggedAddress(t, log.Bytes()), maxMonitors)
}

// TestReady: monitors are told, by readyz and by proxyd_shared_up, that a daemon waits for the shared folder at its
// start, that a store goes away later, and that it is back, although its folder is a copy.
func TestReady(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: &config.Config{Shared: dir, LibDir: lib}, cluster: &host.Slurm{Cluster: "mini"}, log: slog.New(slog.DiscardHandler), conductorWait: newConductorWait(t.Context().Done(), nil)}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	expect := func(when string, code int, said, up string) {
		t.Helper()
		w := httptest.NewRecorder()
		n.serveReady(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != code || !strings.Contains(w.Body.String(), said) {
			t.Errorf("%s: readyz says %d %s; want %d %s", when, w.Code, w.Body, code, said)
		}
		n.meter.measureSpace(t.Context())
		w = httptest.NewRecorder()
		n.meter.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), "proxyd_shared_up "+up+"\n") {
			t.Errorf("%s: proxyd_shared_up is not %s", when, up)
		}
	}
	expect("at first", http.StatusServiceUnavailable, "not ready: proxyd is starting", "0")
	n.conductorWait.setReason(shared.ErrUnmarked)
	expect("while it waits", http.StatusServiceUnavailable, shared.ErrUnmarked.Error(), "0")
	var err error
	if n.shared, err = shared.Open(dir, lib); err != nil {
		t.Fatal(err)
	}
	if err := n.shared.OpenStore(); err != nil {
		t.Fatal(err)
	}
	if n.folder, err = posix.Open(n.shared.StorePath()); err != nil {
		t.Fatal(err)
	}
	defer n.folder.Close()
	n.conductorWait.open(admitting{}, nil)
	expect("started", http.StatusOK, "ready", "1")
	mark, err := os.ReadFile(filepath.Join(dir, "store/cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(n.shared.StorePath()), os.Mkdir(n.shared.StorePath(), 0o700)); err != nil {
		t.Fatal(err)
	}
	expect("made anew", http.StatusServiceUnavailable, shared.ErrNoStore.Error(), "0")
	if err := n.folder.Mkdir(t.Context(), "leases"); err == nil {
		t.Error("the store works in a folder that is gone")
	}
	if err := os.WriteFile(filepath.Join(dir, "store/cluster.json"), mark, 0o644); err != nil {
		t.Fatal(err)
	}
	expect("copied back", http.StatusOK, "ready", "1")
	if err := n.folder.Mkdir(t.Context(), "leases"); err != nil {
		t.Errorf("the store is back: %v", err)
	}
}

// TestSpaceMetrics: the space of the store and of the stage is measured at each scrape; a shared folder that is not the
// right folder any more has no space.
func TestSpaceMetrics(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	folder, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.OpenStore(); err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: &config.Config{Shared: dir, Staging: config.Staging{Folder: lib}}, shared: folder, log: slog.New(slog.DiscardHandler), conductorWait: newConductorWait(t.Context().Done(), nil)}
	n.conductorWait.open(admitting{}, nil)
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	scrape := func() string {
		n.meter.measureSpace(t.Context())
		w := httptest.NewRecorder()
		n.meter.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	there := regexp.MustCompile(`(?m)^proxyd_(shared_up 1|(store|stage)_(size|free)_bytes [1-9].*)$`)
	if text := scrape(); len(there.FindAllString(text, -1)) != 5 {
		t.Errorf("metrics =\n%s\nwant shared_up 1 and sizes of store and stage", text)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if text := scrape(); !strings.Contains(text, "proxyd_shared_up 0\n") || strings.Contains(text, "proxyd_store_") || !strings.Contains(text, "proxyd_stage_free_bytes") {
		t.Errorf("metrics with the shared folder away =\n%s\nwant shared_up 0, no store, and the stage", text)
	}
}
