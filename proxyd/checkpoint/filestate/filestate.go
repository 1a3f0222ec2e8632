// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package filestate keeps the state of a capsule's files in a stream of the checkpoint. The length of that state
// depends on the files that the job changes, and each listing of checkpoints reads all manifests: so the manifest has
// only a summary.
package filestate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// streamName is the name of the stream, below the capsule's prefix.
const streamName = "files.json"

// Save writes the state of a capsule's files into a stream, and returns the summary for the manifest.
func Save(w upload.ShareWriter, prefix string, s *files.State) (*records.FilesSummary, error) {
	stream, err := w.Create(prefix + streamName)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(stream).Encode(s), stream.Close()); err != nil {
		return nil, fmt.Errorf("state of files: %w", err)
	}
	return &records.FilesSummary{Count: len(s.Files), Lost: s.Lost, Mark: s.Mark}, nil
}

// Load returns the state of a capsule's files at the checkpoint, nil if the checkpoint has none. A checkpoint of an older
// release has the state in the manifest.
func Load(r *store.Reader, m *records.CapsuleMeta) (*files.State, error) {
	if m.FilesSummary == nil {
		return m.OldFiles, nil
	}
	stream, err := r.Stream(m.StreamID(streamName))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	s, err := decodeState(stream, files.MaxState)
	if err != nil {
		return nil, fmt.Errorf("state of files of capsule %d: %w", m.Index, err)
	}
	return s, nil
}

// decodeState parses a state of at most a number of bytes.
func decodeState(r io.Reader, most int64) (*files.State, error) {
	limited := &io.LimitedReader{R: r, N: most + 1}
	s := &files.State{}
	err := json.NewDecoder(limited).Decode(s)
	if limited.N <= 0 {
		return nil, fmt.Errorf("more than %d bytes", most)
	}
	return s, err
}

// FixedPaths returns the paths of the files in a state that must have the size of the cut at a restore: a program of the
// capsule had the file mapped, or open in another way than to be read only or appended to.
func FixedPaths(m *records.CapsuleMeta, state *files.State) (paths []string) {
	for _, p := range m.Programs {
		if p.Image == nil {
			continue
		}
		for path := range p.Image.FixedPaths() {
			if _, recorded := state.Files[files.Name(path)]; recorded {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
