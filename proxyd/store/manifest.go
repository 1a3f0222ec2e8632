// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Manifest describes a committed checkpoint completely. A manifest returned by the store can be
// trusted: its seal covers every byte, and through the hashes in it the contents.
type Manifest struct {
	ID
	Created time.Time    `json:"created"` // by the clock of the node that committed
	Streams []StreamInfo `json:"streams"` // sorted by StreamID
	Stats   Stats        `json:"stats"`
	Meta    []byte       `json:"meta"` // for the caller
}

// StreamInfo is a stream of a checkpoint. Its recipe is either in Recipe or in chunks.
type StreamInfo struct {
	StreamID
	Size   int64   `json:"size"`
	Data   int64   `json:"data"` // bytes of Size that are not zero pages
	Recipe []byte  `json:"recipe,omitempty"`
	Pieces []Piece `json:"pieces,omitempty"`
}

// Piece is a chunk with a part of a recipe.
type Piece struct {
	Hash Hash `json:"hash"`
	Size int  `json:"size"`
}

// Stats counts bytes. Logical = Zero + Inline + Dedup + New.
type Stats struct {
	Logical   int64 `json:"logical"`    // as written by callers
	Zero      int64 `json:"zero"`       // of these, zero pages, which take no space
	Inline    int64 `json:"inline"`     // short streams, kept in recipes
	Dedup     int64 `json:"dedup"`      // found in the store
	New       int64 `json:"new"`        // not found
	Stored    int64 `json:"stored"`     // bytes that New and new recipes take in the store
	Chunks    int64 `json:"chunks"`     // in recipes
	NewChunks int64 `json:"new_chunks"` // of these, put
}

func (s *Stats) addStats(o Stats) {
	s.Logical += o.Logical
	s.Zero += o.Zero
	s.Inline += o.Inline
	s.Dedup += o.Dedup
	s.New += o.New
	s.Stored += o.Stored
	s.Chunks += o.Chunks
	s.NewChunks += o.NewChunks
}

// Stream returns the stream of that name, or nil.
func (m *Manifest) Stream(id StreamID) *StreamInfo {
	i, ok := slices.BinarySearchFunc(m.Streams, id, func(s StreamInfo, id StreamID) int {
		return compareStreams(s.StreamID, id)
	})
	if !ok {
		return nil
	}
	return &m.Streams[i]
}

// Nodes returns the names of the nodes that have streams, sorted.
func (m *Manifest) Nodes() []string {
	var nodes []string
	for _, s := range m.Streams {
		if len(nodes) == 0 || nodes[len(nodes)-1] != s.Node {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

func compareStreams(a, b StreamID) int {
	if c := strings.Compare(a.Node, b.Node); c != 0 {
		return c
	}
	if a.Rank != b.Rank {
		return a.Rank - b.Rank
	}
	return strings.Compare(a.Name, b.Name)
}

// A manifest's file is three lines. The seal is over the first two with their newlines,
// and is checked before they are parsed.
const (
	manifestMagic = "singularity-slurm manifest 1\n"
	sealPrefix    = "blake3 "
	sealLength    = len(sealPrefix) + 64 + 1
)

// maxManifest bounds a manifest's file.
const maxManifest = 256 << 20

// sealManifest returns the file of m.
func sealManifest(m *Manifest, k Key) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", m.ID, err)
	}
	file := append([]byte(manifestMagic), body...)
	file = append(file, '\n')
	seal := k.sealOf(file)
	file = append(file, sealPrefix...)
	file = hex.AppendEncode(file, seal[:])
	file = append(file, '\n')
	if len(file) > maxManifest {
		return nil, fmt.Errorf("checkpoint %s: manifest of %s", m.ID, formatSize(uint64(len(file))))
	}
	return file, nil
}

// openManifest parses a file that is believed to be the manifest of id. The error is a
// *RefusedError when the seal or the identity is wrong, else a *DamagedError.
func openManifest(file []byte, id ID, k Key) (*Manifest, error) {
	object := "manifest " + id.String()
	sealed, seal, ok := splitSeal(file)
	if !ok {
		return nil, &DamagedError{object, "not a manifest"}
	}
	if !k.verifySeal(sealed, seal) {
		return nil, &RefusedError{object, ErrMAC}
	}
	m, err := parseManifest(sealed[len(manifestMagic):])
	if err != nil {
		return nil, &DamagedError{object, err.Error()}
	}
	if m.ID != id {
		return nil, &RefusedError{object, fmt.Errorf("%w: it is that of %s", ErrPlace, m.ID)}
	}
	return m, nil
}

// splitSeal takes the last line off a manifest's file.
func splitSeal(file []byte) (sealed []byte, seal [32]byte, ok bool) {
	if len(file) < len(manifestMagic)+sealLength || !bytes.HasPrefix(file, []byte(manifestMagic)) {
		return nil, seal, false
	}
	sealed, line := file[:len(file)-sealLength], file[len(file)-sealLength:]
	if !bytes.HasPrefix(line, []byte(sealPrefix)) || line[sealLength-1] != '\n' {
		return nil, seal, false
	}
	h, ok := parseHash(string(line[len(sealPrefix) : sealLength-1]))
	return sealed, h, ok
}

// parseManifest parses and checks the second line.
func parseManifest(body []byte) (*Manifest, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var m Manifest
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if rest := body[d.InputOffset():]; string(rest) != "\n" {
		return nil, fmt.Errorf("%d bytes follow the manifest", len(rest))
	}
	if err := m.checkName(); err != nil {
		return nil, err
	}
	for i, s := range m.Streams {
		if i > 0 && compareStreams(m.Streams[i-1].StreamID, s.StreamID) >= 0 {
			return nil, fmt.Errorf("stream %s: out of order", s.StreamID)
		}
		if err := s.checkInfo(); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

func (s *StreamInfo) checkInfo() error {
	if err := s.checkName(); err != nil {
		return err
	}
	if s.Size < 0 || s.Size > maxStream || s.Data < 0 || s.Data > s.Size {
		return fmt.Errorf("stream %s: sizes %d and %d", s.StreamID, s.Size, s.Data)
	}
	if len(s.Recipe) > 0 && len(s.Pieces) > 0 {
		return fmt.Errorf("stream %s: two recipes", s.StreamID)
	}
	for _, p := range s.Pieces {
		if p.Size < 1 || p.Size > MaxChunk {
			return fmt.Errorf("stream %s: recipe piece of %d bytes", s.StreamID, p.Size)
		}
	}
	return nil
}
