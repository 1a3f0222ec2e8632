// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// State describes a job's files at a cut. The checkpoint has the State as JSON.
type State struct {
	Serial  int              `json:"serial"`  // counts the States of a capsule
	Mark    Mark             `json:"mark"`    // of the journal, at the cut
	Boot    string           `json:"boot"`    // of the node's kernel: Dev is valid until its next boot
	Time    time.Time        `json:"time"`    // of the cut, by the node's clock
	Lost    bool             `json:"lost"`    // the journal was not complete, at this cut or at an earlier State
	Files   FileMap          `json:"files"`   // by absolute path
	Parents FileMap          `json:"parents"` // folders of the user's that lead to Files, and are not in Files
	Streams map[string]int64 `json:"streams"` // where the contents are, with the length of each
	Notes   []Note           `json:"notes,omitempty"`
	Full    bool             `json:"full,omitempty"` // it is Lost because a State can describe no more files
}

// MaxState bounds the length of a State as JSON, and so the daemon's memory for it: a job chooses how many files it
// changes.
const MaxState = 64 << 20 // of some 160,000 files

// maxDescribed bounds the part of MaxState that files and folders take. The rest is for notes and for names of streams. A test
// changes it.
var maxDescribed = MaxState - 8<<20

// Name is a path or a symbolic link's target: any bytes, which JSON alone could not keep.
type Name string

// FileMap has files by their paths.
type FileMap map[Name]*File

// MarshalJSON returns the files by the names' texts. Package json would take the bytes of a key that is a string, and
// replace bytes that are no UTF-8.
func (m FileMap) MarshalJSON() ([]byte, error) {
	byText := make(map[string]*File, len(m))
	for n, f := range m {
		text, err := n.MarshalText()
		if err != nil {
			return nil, err
		}
		byText[string(text)] = f
	}
	return json.Marshal(byText)
}

const hexPrefix = "hex:"

// MarshalText returns the name itself if that is text, else its bytes in hexadecimal.
func (n Name) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(n)) && !strings.HasPrefix(string(n), hexPrefix) {
		return []byte(n), nil
	}
	return []byte(hexPrefix + hex.EncodeToString([]byte(n))), nil
}

// UnmarshalText is the inverse of MarshalText.
func (n *Name) UnmarshalText(text []byte) error {
	rest, ok := strings.CutPrefix(string(text), hexPrefix)
	if !ok {
		*n = Name(text)
		return nil
	}
	b, err := hex.DecodeString(rest)
	*n = Name(b)
	return err
}

// Note names a file that is not as a user expects, and the reason.
type Note struct {
	Path Name   `json:"path"`
	Why  string `json:"why"`
}

// Type is the type of the file at a path.
type Type string

// The types. Files of type Other (sockets, devices) are neither recorded nor put back.
const (
	Missing Type = "missing" // no file, though the job has changed the path
	Regular Type = "file"
	Dir     Type = "dir"
	Symlink Type = "symlink"
	Fifo    Type = "fifo"
	Other   Type = "other"
)

// File describes the file that was at a path.
type File struct {
	Type   Type      `json:"type"`
	Mode   uint32    `json:"mode,omitempty"` // permissions with set-id and sticky bits
	UID    uint32    `json:"uid,omitempty"`
	GID    uint32    `json:"gid,omitempty"`
	Size   int64     `json:"size,omitempty"`
	Mtime  int64     `json:"mtime,omitempty"` // nanoseconds since 1970
	Ctime  int64     `json:"ctime,omitempty"`
	Dev    uint64    `json:"dev,omitempty"`
	Ino    uint64    `json:"ino,omitempty"`
	FS     uint64    `json:"fs,omitempty"` // the file system's name for itself, 0 if it has no such name
	Target Name      `json:"target,omitempty"`
	Wrote  bool      `json:"wrote,omitempty"`   // since the State before, otherwise than by appending, or a program may still write
	Mapped bool      `json:"mapped,omitempty"`  // for writing and sharing, at the cut or since the State before
	LinkTo Name      `json:"link_to,omitempty"` // another path of the same file, which has the Data
	Data   []Segment `json:"data,omitempty"`    // in order; zeros lie between them

	Xattrs Attributes `json:"xattrs,omitzero"` // of files and folders; nil if they are not known
}

// Segment is a part of a file's content, and where that part is kept.
type Segment struct {
	At     int64  `json:"at"` // in the file
	Size   int64  `json:"size"`
	Stream string `json:"stream"`
	Off    int64  `json:"off"` // in the stream
	Hash   Hash   `json:"hash"`
}

// SavedBytes returns the length of the contents that the streams have, and how much of that the State's Record has written.
func (s *State) SavedBytes() (all, written int64) {
	for _, size := range s.Streams {
		all += size
	}
	return all, s.Streams[streamOf(s.Serial)]
}

// streamOf names the stream that a Record writes.
func streamOf(serial int) string { return fmt.Sprintf("files-%d", serial) }

// Hash is the BLAKE3 of a segment's content.
type Hash [32]byte

// MarshalText returns the name in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("hash %.80q: want %d hexadecimal digits", text, 2*len(h))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// maxSegment bounds a segment, and is where segments of a file begin: at its multiples.
const maxSegment = 4 << 20

// Saver takes the contents of files: a stream for each Record, written from its beginning to its
// end.
type Saver interface {
	Create(name string) (io.WriteCloser, error)
}

// Keeper is a Saver that can also take over a stream of the checkpoint that `before` was recorded
// with. A Saver that is no Keeper is given all contents again.
type Keeper interface {
	Keep(ctx context.Context, name string) error
}

// Loader returns the streams. A stream that is an io.Seeker is not read where nothing of the
// stream is needed.
type Loader interface {
	Open(name string) (io.ReadCloser, error)
}

// Report is the result of a PutBack.
type Report struct {
	Unchanged int    // files, folders and links that were as at the cut
	Restored  int    // that were made again, or their content
	Removed   int    // made by the job after the cut
	Bytes     int64  // of content, written
	Made      []Name // paths that are other files now, for Rewind
	Notes     []Note // files that were left alone, and why
}

// checkState refuses a State that PutBack could not use. PutBack acts on a State with the user's rights only, so the
// check serves clear errors and bounded work.
func (s *State) checkState() error {
	for path, f := range s.Files {
		if !validPath(string(path)) || cleanPath(string(path)) != string(path) {
			return fmt.Errorf("state: path %.200q: want a clean absolute path", path)
		}
		if f == nil || f.Size < 0 || f.LinkTo != "" && !validPath(string(f.LinkTo)) {
			return fmt.Errorf("state: %s: bad", path)
		}
		if err := f.Xattrs.checkNames(); err != nil {
			return fmt.Errorf("state: %s: %w", path, err)
		}
		end := int64(0)
		for _, g := range f.Data {
			if g.At < end || g.Size <= 0 || g.Size > maxSegment || g.Off < 0 || g.At > f.Size-g.Size {
				return fmt.Errorf("state: %s: bad segment at %d", path, g.At)
			}
			if g.Off > s.Streams[g.Stream]-g.Size {
				return fmt.Errorf("state: %s: segment at %d: stream %.80q has no such part", path, g.At, g.Stream)
			}
			end = g.At + g.Size
		}
	}
	for path, f := range s.Parents {
		if !validPath(string(path)) || cleanPath(string(path)) != string(path) || f == nil || f.Type != Dir {
			return fmt.Errorf("state: folder %.200q: bad", path)
		}
		if err := f.Xattrs.checkNames(); err != nil {
			return fmt.Errorf("state: folder %s: %w", path, err)
		}
	}
	return nil
}
