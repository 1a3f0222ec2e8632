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

// meetBody is the body of phaseMeet: the device servers of a restored job find each other.
type meetBody struct {
	Peers map[int]string `json:"peers,omitempty"` // where each is, by capsule; nil: say where those of this node are
}

// meetHere is this node's part of it.
func (j *job) meetHere(ctx context.Context, _ store.ID, b meetBody) (map[int]string, error) {
	at := map[int]string{}
	for _, lc := range j.localCapsules() {
		if lc.devices == nil {
			continue
		}
		var err error
		if b.Peers == nil {
			at[lc.index], err = lc.meetingPoint(ctx)
		} else {
			err = lc.devices.Reconnect(ctx, b.Peers)
		}
		if err != nil {
			return nil, fmt.Errorf("capsule %d: %w", lc.index, err)
		}
	}
	return at, nil
}

// meetingPoint is where the device server waits for the others; "" if it works already.
func (lc *localCapsule) meetingPoint(ctx context.Context) (string, error) {
	st, err := lc.devices.Status(ctx)
	if err != nil || !st.Stopped {
		return "", err
	}
	return lc.devices.Address(ctx)
}

// meet has the device servers of a restored job find each other. They stand still.
func (j *job) meet(ctx context.Context, point *resumePoint, where placement) error {
	if !slices.ContainsFunc(point.meta.Capsules, func(m CapsuleMeta) bool { return m.Devices != nil }) {
		return nil
	}
	peers, err := j.meetThere(ctx, point, where, meetBody{})
	// Where one works all have met: a daemon of this node that was killed since came so far.
	if err == nil && !slices.Contains(slices.Collect(maps.Values(peers)), "") {
		_, err = j.meetThere(ctx, point, where, meetBody{peers})
	}
	if err != nil {
		return fmt.Errorf("the device servers do not find each other: %w", err)
	}
	return nil
}

// meetThere has all nodes do their part, side by side, and puts together what they say.
func (j *job) meetThere(ctx context.Context, point *resumePoint, where placement, b meetBody) (map[int]string, error) {
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
