// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// usedSet is the set of chunks that manifests need, by the first 8 bytes of their hashes. If two hashes share these
// bytes, a chunk may be kept too long, and no more. addHashes may be called concurrently; hasHash must not be
// concurrent with addHashes.
type usedSet struct {
	mu     sync.Mutex
	sorted []uint64
	fresh  []uint64
}

func commonPrefix(h Hash) uint64 { return binary.BigEndian.Uint64(h[:]) }

func (u *usedSet) addHashes(hs []Hash) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range hs {
		u.fresh = append(u.fresh, commonPrefix(h))
	}
	if len(u.fresh) > 1<<20+len(u.sorted) {
		u.mergeAdded()
	}
}

func (u *usedSet) mergeAdded() {
	u.sorted = append(u.sorted, u.fresh...)
	slices.Sort(u.sorted)
	u.sorted = slices.Compact(u.sorted)
	u.fresh = nil
}

func (u *usedSet) hasHash(h Hash) bool {
	if len(u.fresh) > 0 {
		u.mergeAdded()
	}
	_, ok := slices.BinarySearch(u.sorted, commonPrefix(h))
	return ok
}

// manifestMarker reads each manifest once, and collects the chunks that are used.
type manifestMarker struct {
	s    *Store
	used usedSet

	mu     sync.Mutex
	seen   map[Hash]bool // manifests, by their bytes and IDs
	pieces map[Hash]bool // of recipes
	skip   map[ID]bool   // of a dry run: treated as deleted

	damaged map[ID]error // committed manifests that cannot be read
}

func newMarker(s *Store) *manifestMarker {
	return &manifestMarker{s: s, seen: make(map[Hash]bool), pieces: make(map[Hash]bool), damaged: make(map[ID]error)}
}

// markManifests reads every manifest that is new, in any folder. A manifest moves from manifests/
// to deleted/ to trash/; each folder is read to its end before the next is listed, so that no
// manifest is missed on its way.
func (k *manifestMarker) markManifests(ctx context.Context) error {
	if err := k.markListed(ctx, k.listCommitted); err != nil {
		return err
	}
	if err := k.markListed(ctx, k.eachDeleted(deletedDir)); err != nil {
		return err
	}
	trash, err := k.s.listNames(ctx, trashDir)
	if err != nil {
		return err
	}
	for _, g := range trash {
		if err := k.markListed(ctx, k.eachDeleted(trashDir+"/"+g)); err != nil {
			return err
		}
	}
	return nil
}

// eachManifest calls f with manifests; committed manifests must be readable.
type eachManifest func(ctx context.Context, f func(name string, id ID, committed bool)) error

// markListed marks the manifests that list finds, several at once, and waits for the end.
func (k *manifestMarker) markListed(ctx context.Context, list eachManifest) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	err := list(ctx, func(name string, id ID, committed bool) {
		g.Go(func() error { return k.markManifest(ctx, name, id, committed) })
	})
	if failed := g.Wait(); failed != nil {
		return failed
	}
	return err
}

func (k *manifestMarker) listCommitted(ctx context.Context, f func(string, ID, bool)) error {
	return k.s.eachID(ctx, nil, func(id ID) error {
		if k.skip[id] {
			return nil
		}
		f(manifestName(id), id, true)
		return nil
	})
}

func (k *manifestMarker) eachDeleted(folder string) eachManifest {
	return func(ctx context.Context, f func(string, ID, bool)) error {
		names, err := k.s.listNames(ctx, folder)
		for _, n := range names {
			if id, ok := parseDeleted(n); ok {
				f(folder+"/"+n, id, false)
			}
		}
		return err
	}
}

// markManifest marks the chunks that a manifest uses. It is unknown which chunks an unreadable committed manifest
// needs; an unreadable deleted manifest needs none.
func (k *manifestMarker) markManifest(ctx context.Context, name string, id ID, committed bool) error {
	err := k.readManifest(ctx, name, id)
	if errors.Is(err, fs.ErrNotExist) && k.isGone(ctx, name) {
		return nil // moved on, and marked at its new name, or deleted
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrRefused) || errors.Is(err, fs.ErrNotExist) {
		if committed {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.damaged[id] = err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(name, manifestsDir+"/"), err)
	}
	return nil
}

// mayMissChunks tells whether unknown chunks may be needed. With a wrong key on a node every manifest is unreadable
// there, and a collection would delete all chunks.
func (k *manifestMarker) mayMissChunks() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.damaged) > 0
}

// isGone tells whether the manifest itself is missing, and not only a chunk of its recipes.
func (k *manifestMarker) isGone(ctx context.Context, name string) bool {
	_, err := k.s.be.Stat(ctx, name)
	return errors.Is(err, fs.ErrNotExist)
}

func (k *manifestMarker) readManifest(ctx context.Context, name string, id ID) error {
	file, err := k.s.be.Get(ctx, name, maxManifest, nil)
	if errors.Is(err, ErrForeign) {
		return &RefusedError{"manifest " + id.String(), err}
	}
	if err != nil {
		return err
	}
	h := hashOf(append(file, id.String()...)) // the key of this manifest at this ID
	if k.areMarked(k.seen, h) {
		return nil
	}
	m, err := openManifest(file[:len(file):len(file)], id, k.s.key)
	if err != nil {
		return err
	}
	for i := range m.Streams {
		if err := k.markStream(ctx, &m.Streams[i]); err != nil {
			return fmt.Errorf("stream %s: %w", m.Streams[i].StreamID, err)
		}
	}
	k.addHashes(k.seen, h)
	return nil
}

// markStream marks the chunks that a stream uses. A stream with exactly the same pieces as one before need not be read
// again.
func (k *manifestMarker) markStream(ctx context.Context, info *StreamInfo) error {
	pieces := make([]Hash, len(info.Pieces))
	for i, p := range info.Pieces {
		pieces[i] = p.Hash
	}
	k.used.addHashes(pieces)
	if len(pieces) > 0 && k.areMarked(k.pieces, pieces...) {
		return nil
	}
	var hs []Hash
	err := k.s.eachStreamSegment(ctx, info, func(g segment) error {
		if g.kind == segmentChunk {
			hs = append(hs, g.hash)
		}
		return nil
	})
	k.used.addHashes(hs)
	if err == nil {
		k.addHashes(k.pieces, pieces...)
	}
	return err
}

// areMarked tells whether addHashes was called for all of hs, which happens after their chunks were marked.
func (k *manifestMarker) areMarked(set map[Hash]bool, hs ...Hash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range hs {
		if !set[h] {
			return false
		}
	}
	return true
}

func (k *manifestMarker) addHashes(set map[Hash]bool, hs ...Hash) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range hs {
		set[h] = true
	}
}
