// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// meter counts the conductor's reports, and looks sizes up in the store.
type meter struct {
	*metrics.Metrics
	n *node

	counting sync.Mutex // held from the question to device servers until the answers are counted

	sharedWatch shared.Watch
	storeSpace  atomic.Pointer[metrics.Space] // of the last look that came to an end
}

// Stored counts a checkpoint, with the sizes in its manifest.
func (m *meter) Stored(ctx context.Context, id store.ID) {
	r, err := m.n.store.Open(ctx, id)
	if err != nil { // the checkpoint was deleted meanwhile, or this daemon ends
		m.n.log.Debug("size of a checkpoint", "checkpoint", id.String(), "error", err)
		return
	}
	defer r.Close()
	stats := r.Manifest().Stats
	m.Metrics.Stored(stats.Logical, stats.Stored)
}

// countDevices asks the node's device servers for their counts.
func (m *meter) countDevices(ctx context.Context) {
	if m.n.conductorWait == nil || !m.n.conductorWait.isOpen() {
		return
	}
	m.counting.Lock()
	defer m.counting.Unlock()
	now := map[string]*metrics.DeviceCounts{}
	for name, devices := range m.n.conductor.DeviceCounts(ctx) {
		if devices == nil {
			now[name] = nil
			continue
		}
		sum := &metrics.DeviceCounts{}
		for _, d := range devices {
			sum.Instructions += d.Instructions
			sum.Switches += d.Switches
			sum.Interrupted += d.Interrupted
			sum.SwappedOut += d.SwappedOut
			sum.SwappedIn += d.SwappedIn
			sum.SwapSpared += d.SwapSpared
			sum.Unshared += d.Unshared
			sum.SwitchTime += d.SwitchTime
			sum.Once += d.Once
			sum.Own += d.Own
			sum.Spared += d.Spared
			sum.Compared += d.Compared
			sum.Taken += d.Taken
			sum.Common += d.Common
			sum.Saved += d.Saved
			sum.Private += d.Private
		}
		now[name] = sum
	}
	m.Devices(now)
}

// measureSpace looks at the file systems on which checkpoints lie. A file system that does not answer holds up a
// single look only.
func (m *meter) measureSpace(ctx context.Context) {
	store, stage, err := m.findSpace(ctx)
	m.Spaces(err == nil, store, stage)
}

// findSpace returns the space of the store and of the stage; nil for a space that is not known. The error is that of
// the shared folder.
func (m *meter) findSpace(ctx context.Context) (store, stage *metrics.Space, err error) {
	err = m.n.ready(ctx, &m.sharedWatch, func() error {
		m.storeSpace.Store(nil)
		if err := m.n.checkShared(); err != nil {
			return err
		}
		space, err := measureSpace(m.n.shared.StorePath())
		m.storeSpace.Store(space)
		return err
	})
	if err == nil {
		store = m.storeSpace.Load()
	}
	if folder := m.n.cfg.Staging.Folder; folder != "" {
		var unknown error
		if stage, unknown = measureSpace(folder); unknown != nil {
			m.n.log.Debug("space of the stage", "error", unknown)
		}
	}
	return store, stage, err
}

var errStarting = errors.New("proxyd is starting")

// ready returns nil if tasks get their places: the daemon has started, and check, which looks at the shared folder, finds it.
func (n *node) ready(ctx context.Context, watch *shared.Watch, check func() error) error {
	switch {
	case n.conductorWait.isOpen():
		return watch.CheckNow(ctx, check)
	case n.conductorWait.awayReason() != nil:
		return n.conductorWait.awayReason()
	}
	return errStarting
}

// serveReady answers monitors: 200, or 503 with the reason for which tasks that start have to wait.
func (n *node) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := n.ready(r.Context(), &n.watch, n.checkShared); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// measureSpace is the space of the file system of a folder.
func measureSpace(folder string) (*metrics.Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: folder, Err: err}
	}
	unit := uint64(st.Frsize) //nolint:gosec // a size
	return &metrics.Space{Size: st.Blocks * unit, Free: st.Bavail * unit}, nil
}

// maxMonitors bounds the connections of monitors without a request, and the connections with a request that is answered.
const maxMonitors = 64

// serveMetrics listens for Prometheus. A failure to listen is logged, and the daemon goes on.
func (n *node) serveMetrics(ctx context.Context) (func(), error) {
	if n.cfg.Metrics.Address == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", n.cfg.Metrics.Address)
	if err != nil {
		n.log.Error("metrics are not served", "error", err)
		return nil, nil
	}
	n.log.Info("metrics", "address", l.Addr().String())
	mux := http.NewServeMux()
	metrics := n.meter.Handler()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		n.meter.countDevices(r.Context())
		n.meter.measureSpace(r.Context())
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /readyz", n.serveReady)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10}
	strangers.LimitServer(server, maxMonitors, maxMonitors)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("metrics", "error", err)
		}
	}()
	return func() { server.Close(); <-ended }, nil
}
