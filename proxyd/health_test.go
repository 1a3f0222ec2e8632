// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// TestHealth: a node reports the state of the shared folder and of its store, and their space.
func TestHealth(t *testing.T) {
	dir, lib := filepath.Join(t.TempDir(), "shared"), t.TempDir()
	storePath := filepath.Join(dir, "store")
	initFolder := func() {
		t.Helper()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, _, err := shared.Init(dir, "mini"); err != nil {
			t.Fatal(err)
		}
	}
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	initFolder()
	n := &node{cfg: &config.Config{Shared: dir, Staging: config.Staging{Folder: lib}, Devices: config.Devices{Kind: "soft"}}, log: slog.New(slog.DiscardHandler), conductorWait: newConductorWait(t.Context().Done(), nil)}
	n.meter = &meter{Metrics: metrics.New("1.2.3", reports.Events(), checkpoint.Phases()), n: n}
	id := "" // the ID of the shared folder that the node works with
	check := func(want rpc.Health_Shared) {
		t.Helper()
		h := n.describeHealth(t.Context(), checkpoint.Load{Capsules: 3, Led: []checkpoint.LedJob{{ID: 7, Run: 1, Obstacle: "a terminal"}}})
		right := want == rpc.Health_RIGHT
		if h.GetShared() != want || h.GetSharedId() != id || (h.GetStore().GetFree() > 0) != right || h.GetStage().GetSize() == 0 ||
			h.GetDevices() != "soft" || h.GetCapsules() != 3 || len(h.GetJobs()) != 1 || h.GetJobs()[0].GetObstacle() != "a terminal" || h.GetJobs()[0].GetRun() != 1 {
			t.Errorf("want %v: %v", want, h)
		}
	}
	check(rpc.Health_SHARED_UNSPECIFIED) // proxyd starts
	n.conductorWait.setReason(shared.ErrUnmarked)
	check(rpc.Health_UNMARKED) // proxyd waits for the mark
	n.conductorWait.setReason(shared.ErrOtherStore)
	check(rpc.Health_OTHER_STORE)

	folder, err := shared.Open(dir, lib)
	do(err)
	do(folder.OpenStore())
	backend, err := posix.Open(folder.StorePath())
	do(err)
	defer backend.Close()
	n.shared, n.folder, id = folder, backend, folder.Mark().ID
	n.conductorWait.open(admitting{}, nil)
	check(rpc.Health_RIGHT)

	mark, err := os.ReadFile(filepath.Join(storePath, "cluster.json"))
	do(err, os.Rename(storePath, storePath+".away"))
	check(rpc.Health_NO_STORE)
	do(os.Mkdir(storePath, 0o700))
	check(rpc.Health_NO_STORE) // the folder below its mount point
	_, _, err = shared.Init(storePath, "mini")
	do(err)
	check(rpc.Health_OTHER_STORE)
	do(os.WriteFile(filepath.Join(storePath, "cluster.json"), mark, 0o644)) // a copy of the mark
	check(rpc.Health_RIGHT)

	do(os.Rename(dir, dir+".away"))
	check(rpc.Health_UNMARKED)
	initFolder()
	check(rpc.Health_OTHER)
	do(os.WriteFile(filepath.Join(dir, "cluster.json"), []byte("nonsense"), 0o644))
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
		n := &node{cfg: &config.Config{Shared: dir}, shared: folder, log: slog.New(slog.DiscardHandler), conductorWait: newConductorWait(t.Context().Done(), nil)}
		n.conductorWait.open(admitting{}, nil)
		n.meter = &meter{n: n}
		hangs := make(chan struct{})
		go func() {
			_ = n.meter.sharedWatch.CheckNow(context.Background(), func() error { <-hangs; return unix.ESTALE })
		}()
		synctest.Wait()
		if h := n.describeHealth(t.Context(), checkpoint.Load{}); h.GetShared() != rpc.Health_SILENT || h.GetStore() != nil {
			t.Errorf("health while the shared folder hangs = %v; want it silent, without a store", h)
		}
		close(hangs)
	})
}
