// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// TestHealth: a node says in which state it finds the shared folder, and which space there is.
func TestHealth(t *testing.T) {
	dir, lib := filepath.Join(t.TempDir(), "shared"), t.TempDir()
	initFolder := func() {
		t.Helper()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, _, err := shared.Init(dir, "mini"); err != nil {
			t.Fatal(err)
		}
	}
	initFolder()
	folder, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: &config.Config{Shared: dir, Staging: config.Staging{Folder: lib}, Devices: config.Devices{Kind: "soft"}}, shared: folder, log: slog.New(slog.DiscardHandler)}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	check := func(want rpc.Health_Shared) {
		t.Helper()
		h := n.describeHealth(t.Context(), checkpoint.Load{Capsules: 3, Led: []checkpoint.LedJob{{ID: 7, Run: 1, Obstacle: "a terminal"}}})
		right := want == rpc.Health_RIGHT
		if h.GetShared() != want || h.GetSharedId() != folder.Mark().ID || (h.GetStore().GetFree() > 0) != right || h.GetStage().GetSize() == 0 ||
			h.GetDevices() != "soft" || h.GetCapsules() != 3 || len(h.GetJobs()) != 1 || h.GetJobs()[0].GetObstacle() != "a terminal" || h.GetJobs()[0].GetRun() != 1 {
			t.Errorf("want %v: %v", want, h)
		}
	}
	check(rpc.Health_RIGHT)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	check(rpc.Health_UNMARKED)
	initFolder()
	check(rpc.Health_OTHER)
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	check(rpc.Health_UNREADABLE)
}

// TestHealthSilent: a file system that does not answer delays the answer by two seconds, not for ever.
func TestHealthSilent(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	folder, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &node{cfg: &config.Config{Shared: dir}, shared: folder, log: slog.New(slog.DiscardHandler)}
		n.meter = &meter{n: n}
		hangs := make(chan struct{})
		go func() {
			_ = n.meter.sharedWatch.CheckNow(context.Background(), func() error { <-hangs; return unix.ESTALE })
		}()
		synctest.Wait()
		if h := n.describeHealth(t.Context(), checkpoint.Load{}); h.GetShared() != rpc.Health_SILENT || h.GetStore() != nil {
			t.Errorf("%v", h)
		}
		close(hangs)
	})
}
