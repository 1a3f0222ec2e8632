// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Summary describes a share in a list.
type Summary struct {
	ID        store.ID
	Committed time.Time
	Err       error // the share cannot be read
}

// Stream describes a stream of a share.
type Stream struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// From is the checkpoint that contains this stream under the same name. nil: the stream is a
	// file of this share.
	From *store.ID `json:"from,omitempty"`
}

// shareIndex is the content of a share's index.json.
type shareIndex struct {
	Meta    []byte   `json:"meta,omitempty"`
	Streams []Stream `json:"streams"` // stream n is in file n; streams of other checkpoints follow
}

const indexName = "index.json"

// Share is a share that is being written. Streams may be created and written concurrently. A Share
// must end with Commit or Abort.
type Share struct {
	stage *Stage
	id    store.ID
	dir   string // before the commit

	mu      sync.Mutex
	ended   error // the error for later calls that add streams
	names   []string
	files   []*os.File
	carried []Stream // streams of other checkpoints
}

var errEnded = errors.New("the share has ended")

// Create starts a share. An existing share of that ID belongs to a failed attempt and is removed;
// if the old share is still being written, its writer gets an error.
func (s *Stage) Create(id store.ID) (*Share, error) {
	s.mu.Lock()
	before := s.unfinished[id]
	s.mu.Unlock()
	if before != nil {
		if err := before.Abort(); err != nil {
			return nil, err
		}
	}
	if err := s.Delete(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := &Share{stage: s, id: id, dir: s.sharePath(id) + beingMade}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfinished[id] = h
	return h, nil
}

// forgetShare removes a share from the table of unfinished shares.
func (s *Stage) forgetShare(h *Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfinished[h.id] == h {
		delete(s.unfinished, h.id)
	}
}

// Create creates a stream. The result is an *os.File, so that the kernel can move pages into the
// file. Each name can be used once.
func (h *Share) Create(name string) (io.WriteCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return nil, fmt.Errorf("stream %s: %w", name, h.ended)
	}
	if h.hasName(name) {
		return nil, fmt.Errorf("stream %s: %w", name, fs.ErrExist)
	}
	f, err := os.OpenFile(h.filePath(len(h.names)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	h.names = append(h.names, name)
	h.files = append(h.files, f)
	return f, nil
}

// Carry makes a stream of a checkpoint in the store a stream of this share, under the same name.
// The caller must make sure that the checkpoint is not deleted before the share is in the store.
func (h *Share) Carry(name string, from store.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return fmt.Errorf("stream %s: %w", name, h.ended)
	}
	if h.hasName(name) {
		return fmt.Errorf("stream %s: %w", name, fs.ErrExist)
	}
	h.carried = append(h.carried, Stream{Name: name, From: &from})
	return nil
}

// hasName tells whether a name is in use. The caller holds h.mu.
func (h *Share) hasName(name string) bool {
	return slices.Contains(h.names, name) || slices.ContainsFunc(h.carried, func(s Stream) bool { return s.Name == name })
}

func (h *Share) filePath(n int) string { return filepath.Join(h.dir, strconv.Itoa(n)) }

// Commit makes the share exist, with the caller's description meta. All streams must be closed.
// After an error only Abort may be called.
func (h *Share) Commit(meta []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	h.ended = errEnded
	x := shareIndex{Meta: meta, Streams: make([]Stream, len(h.names))}
	var g errgroup.Group
	g.SetLimit(16) // file systems sync many files at the cost of a single file
	for n, name := range h.names {
		g.Go(func() (err error) {
			x.Streams[n], err = h.syncStream(n, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	x.Streams = append(x.Streams, h.carried...)
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(h.dir, indexName), b); err != nil {
		return err
	}
	if err := durable.SyncFolder(h.dir); err != nil {
		return err
	}
	if err := os.Rename(h.dir, h.stage.sharePath(h.id)); err != nil {
		return err
	}
	h.dir = ""
	h.stage.forgetShare(h)
	return durable.SyncFolder(h.stage.dir)
}

// syncStream makes a stream durable. A file in memory needs no sync.
func (h *Share) syncStream(n int, name string) (Stream, error) {
	f, err := os.Open(h.filePath(n))
	if err != nil {
		return Stream{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Stream{}, err
	}
	if !h.stage.memory {
		err = f.Sync()
	}
	return Stream{Name: name, Size: st.Size()}, err
}

func writeFile(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Abort removes a share that is not committed; writers still at work get an error. Abort may be
// called twice. After Commit, Abort has no effect.
func (h *Share) Abort() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir == "" {
		return nil
	}
	h.ended = errEnded
	for _, f := range h.files {
		f.Close() // most files are closed already
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return err
	}
	h.dir = ""
	h.stage.forgetShare(h)
	return nil
}

// CommittedShare is a committed share, for reading. A CommittedShare holds no open files.
type CommittedShare struct {
	Meta    []byte
	Streams []Stream
	dir     string
}

// Open returns a committed share. The error wraps ErrLost if the share is missing or damaged.
func (s *Stage) Open(id store.ID) (*CommittedShare, error) {
	name := filepath.Join(s.sharePath(id), indexName)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, markLost(err)
	}
	var x shareIndex
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLost, name, err)
	}
	return &CommittedShare{Meta: x.Meta, Streams: x.Streams, dir: s.sharePath(id)}, nil
}

// CopyTo writes stream n to w; the stream must be a file of this share. The error wraps ErrLost
// if the share cannot be read.
func (k *CommittedShare) CopyTo(w io.Writer, n int) error {
	f, err := os.Open(filepath.Join(k.dir, strconv.Itoa(n)))
	if err != nil {
		return markLost(err)
	}
	defer f.Close()
	r := &shareReader{f: f}
	buf := make([]byte, min(copySize, max(1, k.Streams[n].Size)))
	got, err := io.CopyBuffer(struct{ io.Writer }{w}, r, buf)
	if err == nil && got != k.Streams[n].Size {
		err = fmt.Errorf("%w: %s has %d bytes of %d", ErrLost, f.Name(), got, k.Streams[n].Size)
	}
	return err
}

const copySize = 256 << 10

// shareReader distinguishes errors of reading the share from errors of writing the copy.
type shareReader struct{ f *os.File }

func (b *shareReader) Read(p []byte) (int, error) {
	n, err := b.f.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = markLost(err)
	}
	return n, err
}

// markLost makes ErrLost of errors that a second try would meet again.
func markLost(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}
