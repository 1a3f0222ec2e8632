// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"io/fs"
	"sync"
)

// trashedObject is an object in the trash.
type trashedObject struct {
	since generationNumber
	dir   string
	name  string // the whole path
	chunk Hash
	kind  trashKind
}

type trashKind int

const (
	trashedChunk trashKind = iota
	trashedManifest
)

// judgeTrash carries out the decisions about the trash: manifests first, so that chunks which only they used can be
// deleted as well. The trash is listed before the claims, and the claims before the manifests.
func (c *collector) judgeTrash(ctx context.Context) error {
	things, err := c.listTrash(ctx)
	if err != nil {
		return err
	}
	claims, err := c.s.liveClaims(ctx)
	if err != nil {
		return err
	}
	var live []generationNumber
	for _, l := range claims {
		if l.name.kind != spaceClaim {
			live = append(live, l.name.since)
		}
	}
	c.report.Waiting, c.report.Open = 0, 0
	if err := c.judgeManifests(ctx, things, live); err != nil {
		return err
	}
	if err := c.mark.markManifests(ctx); err != nil {
		return err
	}
	return c.judgeChunks(ctx, things, live)
}

// listTrash lists the whole trash.
func (c *collector) listTrash(ctx context.Context) ([]trashedObject, error) {
	folders, err := c.s.listNames(ctx, trashDir)
	if err != nil {
		return nil, err
	}
	var things []trashedObject
	for _, folder := range folders {
		g, ok := parseTrash(folder)
		if !ok {
			continue
		}
		dir := trashDir + "/" + folder
		names, err := c.s.listNames(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			t := trashedObject{since: g, dir: dir, name: dir + "/" + n}
			if h, ok := parseHash(n); ok {
				t.chunk = h
			} else if _, ok := parseDeleted(n); ok {
				t.kind = trashedManifest
			} else {
				continue
			}
			things = append(things, t)
		}
	}
	return things, nil
}

// judgeManifests deletes durably: a chunk must not be deleted before the manifest that used the
// chunk.
func (c *collector) judgeManifests(ctx context.Context, things []trashedObject, live []generationNumber) error {
	folders := make(map[string]bool)
	for _, t := range things {
		if t.kind != trashedManifest {
			continue
		}
		if manifestFate(isSettled(t.since, live)) != purge {
			c.report.Open++
			continue
		}
		if err := c.s.be.Remove(ctx, t.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.report.Purged++
		folders[t.dir] = true
	}
	for f := range folders {
		if err := c.s.syncIfThere(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) judgeChunks(ctx context.Context, things []trashedObject, live []generationNumber) error {
	chunks := make(map[string]trashedObject)
	var names []string
	doubt := c.mark.mayMissChunks()
	c.mark.used.hasHash(Hash{}) // merge once, before concurrent reads
	for _, t := range things {
		if t.kind == trashedChunk {
			chunks[t.name] = t
			names = append(names, t.name)
		}
	}
	var doomed []string
	var mu sync.Mutex
	sizes := make(map[string]int64)
	err := forEachName(ctx, names, func(ctx context.Context, name string) error {
		t := chunks[name]
		switch chunkFate(c.mark.used.hasHash(t.chunk), !doubt && isSettled(t.since, live)) {
		case restore:
			c.countResult(func(r *GCReport) { r.Restored++ })
			return c.moveChunk(ctx, t.name, chunkName(t.chunk))
		case purge:
			info, err := c.s.be.Stat(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			doomed = append(doomed, name)
			sizes[name] = info.Size
			return ignoreGone(err)
		default:
			c.countResult(func(r *GCReport) { r.Waiting++ })
			return nil
		}
	})
	if err != nil {
		return err
	}
	// Remove only after all sizes are known: with each removal the shared bytes are divided among fewer chunks.
	return forEachName(ctx, doomed, func(ctx context.Context, name string) error {
		err := c.s.be.Remove(ctx, name)
		if err == nil {
			c.countResult(func(r *GCReport) { r.Chunks++; r.Bytes += sizes[name] })
		}
		return ignoreGone(err)
	})
}

// ignoreGone returns nil for an error that means that the object is missing: another collector
// was faster.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c *collector) countResult(f func(*GCReport)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.report)
}
