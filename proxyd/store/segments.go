// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
)

// eachStreamSegment calls f with the segments of a stream's recipe in order, piece by piece, and
// checks that they make up the stream that the manifest describes. A segment's storage is
// valid only during the call.
func (s *Store) eachStreamSegment(ctx context.Context, info *StreamInfo, f func(segment) error) error {
	var total, data int64
	count := func(g segment) error {
		total += int64(g.length)
		data += int64(g.data)
		if total > info.Size || data > info.Data {
			return &DamagedError{"recipe of " + info.String(), "longer than the stream"}
		}
		return f(g)
	}
	if err := eachSegment(info.Recipe, count); err != nil {
		return err
	}
	var plain, file []byte
	for _, p := range info.Pieces {
		var err error
		if plain, err = s.loadChunk(ctx, p.Hash, p.Size, plain, &file); err != nil {
			return fmt.Errorf("recipe: %w", err)
		}
		if err := eachSegment(plain, count); err != nil {
			return fmt.Errorf("recipe: chunk %s: %w", p.Hash, err)
		}
	}
	if total != info.Size || data != info.Data {
		return &DamagedError{"recipe of " + info.String(), "shorter than the stream"}
	}
	return nil
}

// eachSegment parses a piece of a recipe and calls f with its segments.
func eachSegment(recipe []byte, f func(segment) error) error {
	for len(recipe) > 0 {
		g, rest, err := nextSegment(recipe)
		if err != nil {
			return &DamagedError{"recipe", err.Error()}
		}
		if err := f(g); err != nil {
			return err
		}
		recipe = rest
	}
	return nil
}
