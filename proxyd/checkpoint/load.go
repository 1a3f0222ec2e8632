// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// Load describes this node's work for jobs.
type Load struct {
	Capsules int
	Led      []LedJob // running jobs that this node leads, and has searched for obstacles
}

// LedJob is a running job, as the node that leads it has looked at it last.
type LedJob struct {
	ID       uint32
	Run      int
	Obstacle string // a part of the job that cannot be captured; "": there is none
}

// DescribeLoad counts the capsules of this node.
func DescribeLoad(c *Conductor) Load {
	var l Load
	for _, j := range c.jobs.allJobs() {
		l.Capsules += len(j.localCapsules())
		snap := j.run.Snapshot()
		j.mu.Lock()
		looked, found := j.lookedAt, j.lastObstacles
		j.mu.Unlock()
		if !looked || snap.Placement.NodeOf(0) != c.Node {
			continue
		}
		led := LedJob{ID: j.id, Run: snap.Number}
		if len(found) > 0 {
			led.Obstacle = found[0].What
		}
		l.Led = append(l.Led, led)
	}
	return l
}

// sharedServer returns the name of a device server that serves several capsules; "" for a server of one capsule.
func sharedServer(s *life.Server) string {
	if dir := s.Shared(); dir != "" {
		return filepath.Base(dir)
	}
	return ""
}

// countsWithin limits the time for a device server to tell its counts. A server that saves or restores answers later.
const countsWithin = time.Second

// DeviceCounts asks all device servers of this node for their counts and returns these by the names of the capsules, or of the
// process that several capsules share; nil for a server that does not answer now.
func (c *Conductor) DeviceCounts(ctx context.Context) map[string][]server.SharingStatus {
	ctx, cancel := context.WithTimeout(ctx, countsWithin)
	defer cancel()
	var mu sync.Mutex
	counts, asked := map[string][]server.SharingStatus{}, map[string]bool{}
	var all sync.WaitGroup
	for _, j := range c.jobs.allJobs() {
		for _, lc := range j.localCapsules() {
			if lc.devices == nil {
				continue
			}
			name := capsuleName(j.id, lc.index)
			if shared := sharedServer(lc.devices); shared != "" { // its capsules share the counts: ask once
				if name = shared; asked[name] {
					continue
				}
				asked[name] = true
			}
			all.Go(func() {
				st, err := lc.devices.Status(ctx)
				mu.Lock()
				defer mu.Unlock()
				counts[name] = nil
				if err == nil {
					counts[name] = st.Sharing
				}
			})
		}
	}
	all.Wait()
	return counts
}
