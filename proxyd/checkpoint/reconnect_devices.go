// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// reconnectHere carries out calls.ReconnectDevices on this node.
func (r *restore) reconnectHere(ctx context.Context, _ store.ID, args calls.ReconnectDevicesArgs) (map[int]string, error) {
	servers := map[int]deviceConnector{}
	for _, lc := range r.j.localCapsules() {
		if lc.devices != nil {
			servers[lc.index] = lc.devices
		}
	}
	if args.Peers == nil {
		return findAddresses(ctx, servers)
	}
	return map[int]string{}, connectServers(ctx, servers, args.Peers)
}

// deviceConnector is a device server that connects to the other device servers of its job.
type deviceConnector interface {
	Status(ctx context.Context) (*server.Status, error)
	Address(ctx context.Context) (string, error)
	Reconnect(ctx context.Context, peers map[int]string) error
}

// findAddresses returns the addresses at which the device servers of a node, by their capsules, wait for the others: ""
// for a server that works already. A server that had no network when it was saved waits for no other and is left out; it
// is told the addresses of the others all the same, for its programs may have NCCL's unique ids of theirs.
func findAddresses(ctx context.Context, servers map[int]deviceConnector) (map[int]string, error) {
	addresses := map[int]string{}
	for index, s := range servers {
		st, err := s.Status(ctx)
		var at string
		if err == nil && st.Stopped {
			at, err = s.Address(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("capsule %d: %w", index, err)
		}
		if !st.Stopped || at != "" {
			addresses[index] = at
		}
	}
	return addresses, nil
}

// connectServers has the device servers of a node, by their capsules, connect to all of the job's device servers. Each
// of them answers when the others have come, so capsules that share a node have to be told at the same time.
func connectServers(ctx context.Context, servers map[int]deviceConnector, peers map[int]string) error {
	g, ctx := errgroup.WithContext(ctx)
	for index, s := range servers {
		g.Go(func() error {
			if err := s.Reconnect(ctx, peers); err != nil {
				return fmt.Errorf("capsule %d: %w", index, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// reconnectDevices connects the stopped device servers of a restored job with each other.
func (r *restore) reconnectDevices(ctx context.Context, snap runs.Snapshot) (bool, error) {
	if !slices.ContainsFunc(snap.Point.Meta.Capsules, func(m records.CapsuleMeta) bool { return m.Devices != nil }) {
		return true, nil
	}
	nodes := snap.Point.NodesWithPart(snap.Placement)
	peers, err := r.reconnectOnNodes(ctx, nodes, calls.ReconnectDevicesArgs{})
	// A server that works already is connected: this daemon's predecessor has done that.
	if err == nil && len(peers) > 0 && !slices.Contains(slices.Collect(maps.Values(peers)), "") {
		_, err = r.reconnectOnNodes(ctx, nodes, calls.ReconnectDevicesArgs{Peers: peers})
	}
	if err != nil {
		return false, fmt.Errorf("connect the device servers: %w", err)
	}
	return true, nil
}

// reconnectOnNodes calls all nodes in parallel, and merges their addresses.
func (r *restore) reconnectOnNodes(ctx context.Context, nodes map[string]bool, args calls.ReconnectDevicesArgs) (map[int]string, error) {
	j := r.j
	var mu sync.Mutex
	all := map[int]string{}
	g, ctx := errgroup.WithContext(ctx)
	for node := range nodes {
		g.Go(func() error {
			at, err := callNodeRetrying(ctx, j.c, restoreCallTimeout, node, j.id, calls.ReconnectDevices, args)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, at)
			return err
		})
	}
	return all, g.Wait()
}

// adoptProcesses hands the processes of a restored program to the capsule's device server. The
// processes wait at the server's gates, or will.
func (lc *localCapsule) adoptProcesses(ctx context.Context, m *records.CapsuleMeta, group string) error {
	if m.Devices == nil {
		return nil
	}
	saved := map[int]server.SavedProcess{}
	for _, p := range m.Devices.Processes {
		saved[p.Capsule] = p
	}
	for _, pid := range processes.InCgroup(group) {
		p, ok := saved[processes.NamespacePID(pid)]
		if !ok {
			continue
		}
		if err := lc.adoptProcess(ctx, p, pid); err != nil {
			return fmt.Errorf("devices of process %d: %w", p.Capsule, err)
		}
	}
	return nil
}

// adoptProcess hands a process to the device server, together with descriptors of the memory that
// both share: the server may not open them.
func (lc *localCapsule) adoptProcess(ctx context.Context, p server.SavedProcess, pid int) error {
	with, err := server.OpenHostMappings(pid, p)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range with {
			f.Close()
		}
	}()
	return lc.devices.Adopt(ctx, p.ID, pid, with)
}

// resumeDevices lets the devices of a restored capsule work. A second call is harmless.
func (lc *localCapsule) resumeDevices(ctx context.Context) error {
	st, err := lc.devices.Status(ctx)
	if err != nil || !st.Stopped {
		return err
	}
	return lc.devices.Resume(ctx)
}
