// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
)

// Base is a committed checkpoint from which an upload takes over streams. To name its chunks is as safe as to find them
// in the store: the manifest was read under the upload's claim, so a collector that sees the manifest deleted waits for
// that claim, as it waits for a restore's. After its own commit the new checkpoint does not need the old one: its
// recipes name the chunks.
type Base struct {
	w *Writer
	m *Manifest
}

// Base opens a checkpoint for taking over streams; a Base need not be closed. A missing checkpoint,
// also a deleted one, is fs.ErrNotExist.
func (w *Writer) Base(ctx context.Context, id ID) (*Base, error) {
	if err := w.Err(); err != nil {
		return nil, err
	}
	m, err := w.st.loadManifest(ctx, manifestName(id), id)
	if err != nil {
		return nil, err
	}
	return &Base{w, m}, nil
}

// Manifest returns the checkpoint's manifest. The caller must not change the manifest.
func (b *Base) Manifest() *Manifest { return b.m }

// Carry makes a stream of the checkpoint a stream of this Writer's node, with the effect of
// writing all its bytes again. The bytes are neither read nor hashed; only the recipe is read,
// and a damaged recipe is an error. The bytes count as found in the store.
func (b *Base) Carry(ctx context.Context, from StreamID, rank int, name string) error {
	info := b.m.Stream(from)
	if info == nil {
		return fmt.Errorf("checkpoint %s: stream %s: %w", b.m.ID, from, errNoStream)
	}
	var n Stats
	n.Logical, n.Zero = info.Size, info.Size-info.Data
	err := b.w.st.eachStreamSegment(ctx, info, func(g segment) error {
		switch g.kind {
		case segmentChunk:
			n.Chunks++
			n.Dedup += int64(g.data)
		case segmentInline:
			n.Inline += int64(g.data)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint %s: stream %s: %w", b.m.ID, from, err)
	}
	s, err := b.w.beginStream(rank, name, 0)
	if err != nil {
		return err
	}
	return s.carryFrom(info, n)
}

// carryFrom ends a new stream with the content of a stream that is in the store.
func (s *Stream) carryFrom(old *StreamInfo, n Stats) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size, s.data, s.recipe = old.Size, old.Data, old.Recipe
	info := StreamInfo{StreamID: s.id, Size: old.Size, Data: old.Data, Pieces: old.Pieces}
	if len(old.Pieces) == 0 { // the manifest may have no space for the recipe this time
		if info, s.failed = s.lastPiece(); s.failed != nil {
			return s.failed
		}
	}
	s.closed = true
	s.w.closeStream(info, n)
	return nil
}
