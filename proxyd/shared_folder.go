// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// sharedAgain is the wait before the next look for a shared folder that is away.
const sharedAgain = time.Second

// openShared opens the shared folder and finds its store. It makes no file in them unless they are marked: a file
// system may not be mounted. A node that worked with them before waits for them, as its tasks do.
func (n *node) openShared(ctx context.Context) (func(), error) {
	known := shared.Known(n.cfg.LibDir)
	for said := ""; ; {
		err := n.findShared()
		if err == nil || !known || errors.Is(err, shared.ErrForeign) {
			return nil, err
		}
		if err.Error() != said {
			said = err.Error()
			n.log.Error("proxyd waits for the shared folder, and tasks that start wait with it", "error", err)
		}
		n.conductorWait.setReason(err)
		n.notify(daemon.SdNotifyReady + "\nSTATUS=waits for the shared folder: " + said) // slurmd may start: tasks wait
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(sharedAgain):
		}
	}
}

// findShared opens the shared folder. Files of the folder are executed and restored as root, so only root may write to
// it.
func (n *node) findShared() error {
	err := host.SharedIsRoots(n.cfg.Shared)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("shared: %w: %w", shared.ErrForeign, err)
	}
	if err := shared.CheckCluster(n.cfg.Shared, n.cfg.LibDir, n.cluster.Cluster); err != nil {
		return err
	}
	if n.shared, err = shared.Open(n.cfg.Shared, n.cfg.LibDir); err != nil {
		return err
	}
	return n.shared.OpenStore()
}

// checkShared tells whether the shared folder and the store are there, and has the store go on where its folder is now.
func (n *node) checkShared() error {
	if err := n.shared.Check(); err != nil || n.folder == nil {
		return err
	}
	return n.folder.Follow()
}

// watchEvery is the interval at which the shared folder and the store are checked for the log. Tasks that start make
// their own check.
const watchEvery = 5 * time.Second

// watchShared says in the log when the shared folder or the store goes away, and when they are back.
func (n *node) watchShared(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for isAway := false; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := n.watch.CheckNow(ctx, n.checkShared)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !isAway:
				n.log.Error("the shared folder or the store is away: tasks that start wait for it", "error", err)
			case err == nil && isAway:
				n.log.Info("the shared folder and the store are back")
			}
			isAway = err != nil
		}
	}()
	return func() { cancel(); <-ended }, nil
}
