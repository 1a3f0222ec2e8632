// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// collectMoves is the number of renames and removals that a collector has in flight.
const collectMoves = 16

func (c *collector) folderPath() string { return sweepDir + "/" + c.id }

// adoptOtherSweeps creates this collector's sweep folder and moves the contents of other collectors'
// sweep folders into it. The other folders are then removed: if an owner is alive after all, its
// next move fails.
func (c *collector) adoptOtherSweeps(ctx context.Context) error {
	if err := c.s.be.Mkdir(ctx, c.folderPath()); err != nil {
		return err
	}
	others, err := c.s.listNames(ctx, sweepDir)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other == c.id {
			continue
		}
		if err := c.moveFolder(ctx, sweepDir+"/"+other); err != nil {
			return err
		}
	}
	return nil
}

// moveFolder moves everything from a folder into this collector's until the folder could be
// removed.
func (c *collector) moveFolder(ctx context.Context, dir string) error {
	for {
		if err := c.moveChunks(ctx, dir, c.folderPath()); err != nil {
			return err
		}
		err := c.s.be.Remove(ctx, dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, ErrNotEmpty) {
			return err
		}
	}
}

// moveChunks moves the chunks of a folder to another.
func (c *collector) moveChunks(ctx context.Context, from, to string) error {
	names, err := c.s.listNames(ctx, from)
	if err != nil {
		return err
	}
	return forEachName(ctx, names, func(ctx context.Context, n string) error {
		return c.moveChunk(ctx, from+"/"+n, to+"/"+n)
	})
}

// moveChunk moves a chunk out of a folder that writers do not look at. If the target exists already,
// the second copy is removed. A missing chunk was moved by another collector.
func (c *collector) moveChunk(ctx context.Context, from, to string) error {
	err := c.s.be.Move(ctx, from, to)
	if errors.Is(err, fs.ErrExist) {
		err = c.s.be.Remove(ctx, from)
	}
	return c.ignoreMissing(ctx, from, err)
}

// sweepChunk moves a chunk out of sight. If the sweep folder already has a copy, that copy is removed and not the
// chunk: unlike a move, a removal would not fail if this collector was declared dead and the chunk is in use again.
func (c *collector) sweepChunk(ctx context.Context, h Hash) error {
	from, to := chunkName(h), c.folderPath()+"/"+h.String()
	err := c.s.be.Move(ctx, from, to)
	if errors.Is(err, fs.ErrExist) {
		if err = c.s.be.Remove(ctx, to); err == nil {
			err = c.s.be.Move(ctx, from, to)
		}
	}
	return c.ignoreMissing(ctx, from, err)
}

// ignoreMissing returns nil for an error that means that from is missing; its folder or that of the
// target may be missing instead.
func (c *collector) ignoreMissing(ctx context.Context, from string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := c.s.be.Stat(ctx, from); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// sweepUnused takes unused chunks out of sight.
func (c *collector) sweepUnused(ctx context.Context) error {
	if c.mark.mayMissChunks() {
		return nil
	}
	for i := range chunkFolders {
		c.progress(int64(i), chunkFolders)
		dir := chunkFolder(byte(i))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(collectMoves)
		err := c.eachUnused(gctx, dir, func(h Hash, _ Info) error {
			c.report.Swept++
			g.Go(func() error { return c.sweepChunk(gctx, h) })
			return nil
		})
		if failed := g.Wait(); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
	c.progress(chunkFolders, chunkFolders)
	return nil
}

// eachUnused calls f for the chunks of a folder that may be swept. eachUnused does not look at chunks that are used.
func (c *collector) eachUnused(ctx context.Context, dir string, f func(Hash, Info) error) error {
	return c.s.be.List(ctx, dir, func(name string) error {
		h, ok := parseHash(name)
		if !ok || c.mark.used.hasHash(h) {
			return nil
		}
		info, err := c.s.be.Stat(ctx, dir+"/"+name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if age := c.chunkAge(info); !isSweepable(false, age, c.policy.Grace) {
			c.countSpared(info, c.policy.Grace-age)
			return nil
		}
		return f(h, info)
	})
}

// countSpared counts a chunk that may be deleted later.
func (c *collector) countSpared(info Info, left time.Duration) {
	s := &c.report.Spared
	s.Chunks++
	s.Bytes += info.Size
	if until := c.s.opt.Now().Add(left); until.After(s.Until) {
		s.Until = until
	}
}

// chunkAge uses the clock of the file system; a dry run has written no file, so it uses the node's clock.
func (c *collector) chunkAge(info Info) time.Duration {
	if c.now.IsZero() {
		return c.s.opt.Now().Sub(info.ModTime)
	}
	return c.now.Sub(info.ModTime)
}

// trashManifests moves deleted manifests to the trash.
func (c *collector) trashManifests(ctx context.Context) error {
	names, err := c.s.listNames(ctx, deletedDir)
	if err != nil || len(names) == 0 {
		return err
	}
	// The process that deleted a checkpoint may have died before the deletion was durable.
	for _, n := range names {
		id, ok := parseDeleted(n)
		if !ok {
			continue
		}
		if err := c.s.syncIfThere(ctx, manifestFolder(id.JobID)); err != nil {
			return err
		}
	}
	return c.moveToTrash(ctx, deletedDir)
}

// trashSwept moves the swept chunks to the trash and removes this collector's sweep folder.
func (c *collector) trashSwept(ctx context.Context) error {
	if err := c.moveToTrash(ctx, c.folderPath()); err != nil {
		return err
	}
	return c.s.be.Remove(ctx, c.folderPath())
}

// moveToTrash moves everything from a folder that is out of sight to the trash of the current
// generation, and ends that generation.
func (c *collector) moveToTrash(ctx context.Context, from string) error {
	g, err := c.s.currentGeneration(ctx)
	if err != nil {
		return err
	}
	grave := trashDir + "/" + trashName(g, uniqueName())
	if err := c.s.be.Mkdir(ctx, grave); err != nil {
		return err
	}
	if err := c.moveChunks(ctx, from, grave); err != nil {
		return err
	}
	if err := c.s.be.Sync(ctx, from, grave); err != nil {
		return err
	}
	return ensureFolder(ctx, c.s.be, generationsDir+"/"+(g+1).String())
}

// oldGenerations is the number of ended generations that stay, so that a process that lists them while some are removed
// still sees the current generation. oldTmp is the age from which a file in tmp/ is removed; if its writer is still
// alive, the writer fails.
const (
	oldGenerations = 16
	oldTmp         = 24 * time.Hour
)

// removeLeftovers removes past generations, empty folders of jobs and of the trash, and files of killed writers.
func (c *collector) removeLeftovers(ctx context.Context) error {
	current, err := c.s.currentGeneration(ctx)
	if err != nil {
		return err
	}
	var names []string
	past, err := c.s.listNames(ctx, generationsDir)
	for _, n := range past {
		if g, ok := parseGeneration(n); ok && g+oldGenerations < current {
			names = append(names, generationsDir+"/"+n)
		}
	}
	trash, err1 := c.s.listNames(ctx, trashDir)
	for _, n := range trash {
		if g, ok := parseTrash(n); ok && g < current {
			names = append(names, trashDir+"/"+n)
		}
	}
	jobs, err2 := c.s.jobFolders(ctx, nil)
	tmp, err3 := c.oldFiles(ctx)
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return err
	}
	names = append(append(names, jobs...), tmp...)
	return forEachName(ctx, names, func(ctx context.Context, n string) error {
		err := c.s.be.Remove(ctx, n)
		if errors.Is(err, ErrNotEmpty) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// compactFolders lets the backend free space.
func (c *collector) compactFolders(ctx context.Context) error {
	be, ok := c.s.be.(Compacter)
	if !ok || c.report.Chunks == 0 {
		return nil
	}
	var dirs []string
	for i := range chunkFolders {
		dirs = append(dirs, chunkFolder(byte(i)))
	}
	return be.Compact(ctx, dirs)
}

// oldFiles returns files of killed writers in tmp/.
func (c *collector) oldFiles(ctx context.Context) ([]string, error) {
	var old []string
	names, err := c.s.listNames(ctx, tmpDir)
	for _, n := range names {
		info, err := c.s.be.Stat(ctx, tmpDir+"/"+n)
		if err == nil && c.now.Sub(info.ModTime) > oldTmp && !strings.Contains(n, "/") {
			old = append(old, tmpDir+"/"+n)
		}
	}
	return old, err
}

// forEachName calls f for each name, collectMoves at a time, until a call fails.
func forEachName(ctx context.Context, names []string, f func(context.Context, string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(collectMoves)
	for _, n := range names {
		g.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return f(ctx, n)
		})
	}
	return g.Wait()
}
