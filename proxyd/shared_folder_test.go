// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// TestSharedFolderOfUser: a shared folder that another user could change is refused, also on a node that has worked with the
// folder before, which waits for a folder that is away.
func TestSharedFolderOfUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	const alice = 1001
	for _, c := range []struct {
		name, want string
		change     func(folder string) error
	}{
		{name: "as it should be", change: func(string) error { return nil }},
		{"writable", "chmod go-w", func(folder string) error { return os.Chmod(folder, 0o775) }},
		{"a user's", "belongs to user 1001", func(folder string) error { return os.Chown(folder, alice, alice) }},
		{"the store is a user's", "store belongs to user 1001", func(folder string) error {
			store := filepath.Join(folder, "store")
			return errors.Join(os.MkdirAll(store, 0o755), os.Chown(store, alice, alice))
		}},
		{"a user's link", "belongs to user 1001", func(folder string) error {
			return errors.Join(os.Rename(folder, folder+".away"), os.Symlink(folder+".away", folder), os.Lchown(folder, alice, alice))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder, lib := filepath.Join(t.TempDir(), "shared"), t.TempDir()
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, _, err := shared.Init(folder, "test"); err != nil {
				t.Fatal(err)
			}
			if _, err := shared.Open(folder, lib); err != nil || !shared.Known(lib) {
				t.Fatal(err)
			}
			if err := c.change(folder); err != nil {
				t.Fatal(err)
			}
			n := &node{cfg: &config.Config{Shared: folder, LibDir: lib}, cluster: &host.Slurm{Cluster: "test"}, log: slog.New(slog.DiscardHandler), conductorWait: newConductorWait(nil, func(uint32, error) {})}
			_, err := n.openShared(t.Context())
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && (!errors.Is(err, shared.ErrForeign) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("openShared: %v, want %s", err, c.want)
			}
		})
	}
}

// TestNoScontrol: a daemon that has no scontrol ends with an error that has the remedy, rather than
// wait for slurmctld.
func TestNoScontrol(t *testing.T) {
	n := &node{cfg: &config.Config{Scontrol: "/nowhere/scontrol", NodeName: "n1"}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := n.probeSlurm(ctx); !errors.Is(err, host.ErrNoScontrol) || !strings.Contains(err.Error(), "name its path in proxyd.yaml: scontrol") {
		t.Errorf("probeSlurm without scontrol: %v", err)
	}
}
