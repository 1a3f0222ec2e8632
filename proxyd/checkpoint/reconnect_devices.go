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

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// reconnectRequest is the body of phaseMeet: the device servers of a restored job find each other.
type reconnectRequest struct {
	Peers map[int]string `json:"peers,omitempty"` // where each is, by capsule; nil: say where those of this node are
}

// reconnectHere is this node's part of it.
func (j *job) reconnectHere(ctx context.Context, _ store.ID, b reconnectRequest) (map[int]string, error) {
	at := map[int]string{}
	for _, lc := range j.localCapsules() {
		if lc.devices == nil {
			continue
		}
		var err error
		if b.Peers == nil {
			at[lc.index], err = lc.reconnectAddress(ctx)
		} else {
			err = lc.devices.Reconnect(ctx, b.Peers)
		}
		if err != nil {
			return nil, fmt.Errorf("capsule %d: %w", lc.index, err)
		}
	}
	return at, nil
}

// reconnectAddress is where the device server waits for the others; "" if it works already.
func (lc *localCapsule) reconnectAddress(ctx context.Context) (string, error) {
	st, err := lc.devices.Status(ctx)
	if err != nil || !st.Stopped {
		return "", err
	}
	return lc.devices.Address(ctx)
}

// reconnectDevices has the device servers of a restored job find each other. They stand still.
func (j *job) reconnectDevices(ctx context.Context, point *resumePoint, where placement) error {
	if !slices.ContainsFunc(point.meta.Capsules, func(m CapsuleMeta) bool { return m.Devices != nil }) {
		return nil
	}
	peers, err := j.reconnectOnNodes(ctx, point, where, reconnectRequest{})
	// Where one works all have met: a daemon of this node that was killed since came so far.
	if err == nil && !slices.Contains(slices.Collect(maps.Values(peers)), "") {
		_, err = j.reconnectOnNodes(ctx, point, where, reconnectRequest{peers})
	}
	if err != nil {
		return fmt.Errorf("the device servers do not find each other: %w", err)
	}
	return nil
}

// reconnectOnNodes has all nodes do their part, side by side, and puts together what they say.
func (j *job) reconnectOnNodes(ctx context.Context, point *resumePoint, where placement, b reconnectRequest) (map[int]string, error) {
	var mu sync.Mutex
	all := map[int]string{}
	g, ctx := errgroup.WithContext(ctx)
	for node := range point.nodes(where) {
		g.Go(func() error {
			var at map[int]string
			err := j.c.callNodeRetrying(ctx, restoreCallTimeout, node, j.id, callReconnectDevices, b, &at)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, at)
			return err
		})
	}
	return all, g.Wait()
}
