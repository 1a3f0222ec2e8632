// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// Policy has the rules by which a collection deletes.
type Policy struct {
	Retention Retention
	// Only limits Retention to some jobs; nil: all.
	Only func(JobID) bool
	// Grace protects unused chunks younger than this, so that chunks of dumps in progress are not
	// moved away and back. Correctness does not depend on Grace.
	Grace time.Duration
}

// GCReport has the results of a collection, or those that it would have in a dry run.
type GCReport struct {
	Expired  []ID         // checkpoints deleted by Retention
	Purged   int          // manifests of deleted checkpoints that were removed
	Chunks   int64        // deleted, or in a dry run: unused
	Bytes    int64        // the size of these chunks in the store
	Swept    int64        // moved out of sight
	Restored int64        // moved back because a dump had counted on them
	Waiting  int64        // out of sight until dumps or restores in progress end
	Open     int          // deleted checkpoints that wait for the same, with all their chunks
	Spared   SparedChunks // unused, and younger than Policy.Grace
	Damaged  []Summary    // checkpoints that cannot be read, with the reason; while there are any, no chunk is deleted
}

// SparedChunks counts chunks that no checkpoint needs, and that are too young to be deleted.
type SparedChunks struct {
	Chunks, Bytes int64
	Until         time.Time // a collection that begins then would delete all of them
}

// GC deletes the chunks that no checkpoint needs. GC is safe while dumps, restores, deletes and other collections run
// on any node, and may be killed at any time; the next collection continues. If another collector is alive, the error
// is ErrBusy. A checkpoint that cannot be read may need any chunk: until it is deleted, GC deletes old checkpoints as
// usual, but no chunks. A dry run only counts. progress counts chunk folders.
func (s *Store) GC(ctx context.Context, p Policy, progress Progress, dryRun bool) (GCReport, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	c := &collector{s: s, policy: p, progress: progress, id: uniqueName()}
	var err error
	if dryRun {
		err = c.countUnused(ctx)
	} else {
		err = c.runSteps(ctx)
	}
	if err != nil {
		err = fmt.Errorf("collect: %w", err)
	}
	c.nameDamaged()
	return c.report, err
}

func (c *collector) nameDamaged() {
	if c.mark == nil {
		return
	}
	for id, err := range c.mark.damaged {
		c.report.Damaged = append(c.report.Damaged, Summary{ID: id, Err: err})
	}
	slices.SortFunc(c.report.Damaged, func(a, b Summary) int { return compareIDs(a.ID, b.ID) })
}

// collector is a collection.
type collector struct {
	s        *Store
	policy   Policy
	progress Progress
	id       string
	now      time.Time // of the file system
	mark     *manifestMarker

	mu     sync.Mutex
	report GCReport
}

// runSteps lists the steps of a collection. trash_decision.go explains the order.
func (c *collector) runSteps(ctx context.Context) error {
	release, err := c.becomeCollector(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.mark = newMarker(c.s)
	for _, step := range []func(context.Context) error{
		c.adoptOtherSweeps, // work that dead collectors began
		c.deleteExpired,    // checkpoints that are not to be kept
		c.trashManifests,   // deleted manifests go to the trash
		c.judgeTrash,       // the trash of this and earlier collections
		c.sweepUnused,      // unused chunks go out of sight
		c.trashSwept,       // and into the trash
		c.judgeTrash,       // again: at once, if no process can have seen them
		c.removeLeftovers,  // past generations, empty folders, files of killed writers
		c.compactFolders,   // space held by neighbours of deleted chunks
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// becomeCollector makes this process the only collector. This only saves work: two collectors at a time would be safe.
func (c *collector) becomeCollector(ctx context.Context) (release func(), err error) {
	err = c.s.be.Mkdir(ctx, collectorDir)
	if errors.Is(err, fs.ErrExist) {
		err = c.replaceDeadCollector(ctx)
	}
	if err != nil {
		return nil, err
	}
	// The heartbeat is that of a claim, but in the folder collectorDir.
	l := &claim{st: c.s, what: "gc " + c.id, ended: make(chan struct{}), folder: collectorDir}
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	err = l.writeHeartbeat(ctx, 0)
	if err == nil {
		var info Info
		info, err = c.s.be.Stat(ctx, l.beatFile())
		c.now = info.ModTime
	}
	go l.sendHeartbeats(beating, func(error) {})
	release = func() { _ = l.releaseClaim(ctx) } // if this fails, the next collector finds a dead claim
	if err != nil {
		release()
	}
	return release, err
}

// replaceDeadCollector takes the collector's place from a dead collector.
func (c *collector) replaceDeadCollector(ctx context.Context) error {
	_, dead, err := c.s.readHeartbeat(ctx, collectorDir, collectorDir+"/beat")
	if err != nil {
		return err
	}
	if !dead {
		return ErrBusy
	}
	if err := c.s.removeFolder(ctx, collectorDir); err != nil {
		return err
	}
	if err := c.s.be.Mkdir(ctx, collectorDir); errors.Is(err, fs.ErrExist) {
		return ErrBusy
	} else if err != nil {
		return err
	}
	return nil
}

// deleteExpired deletes the checkpoints that the policy does not keep.
func (c *collector) deleteExpired(ctx context.Context) error {
	ids, err := c.expiredCheckpoints(ctx)
	for _, id := range ids {
		if c.policy.Retention.isNeeded(id) {
			continue // a Base since the list was made
		}
		if err := c.s.Delete(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.report.Expired = append(c.report.Expired, id)
	}
	return err
}

func (c *collector) expiredCheckpoints(ctx context.Context) ([]ID, error) {
	all, err := c.s.List(ctx, nil)
	if err != nil {
		return nil, err
	}
	var some []Summary
	for _, s := range all {
		if c.policy.Only == nil || c.policy.Only(s.ID.JobID) {
			some = append(some, s)
		}
	}
	return c.policy.Retention.Expired(c.s.opt.Now(), some), nil
}

// countUnused counts the chunks that runSteps would delete if no other process were at work.
func (c *collector) countUnused(ctx context.Context) error {
	expired, err := c.expiredCheckpoints(ctx)
	if err != nil {
		return err
	}
	c.report.Expired = expired
	c.mark = newMarker(c.s)
	c.mark.skip = make(map[ID]bool)
	for _, id := range expired {
		c.mark.skip[id] = true
	}
	if err := c.mark.markListed(ctx, c.mark.listCommitted); err != nil || c.mark.mayMissChunks() {
		return err
	}
	for i := range chunkFolders {
		c.progress(int64(i), chunkFolders)
		err := c.eachUnused(ctx, chunkFolder(byte(i)), func(_ Hash, info Info) error {
			c.report.Chunks++
			c.report.Bytes += info.Size
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
