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

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Summary is what List says of a share.
type Summary struct {
	ID        store.ID
	Committed time.Time
	Err       error // it cannot be read
}

// Stream is one of a share.
type Stream struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// From is the checkpoint of which the stream of that name is this one: then the share has nothing else of it.
	From *store.ID `json:"from,omitempty"`
}

// index is a share's index.json.
type index struct {
	Meta    []byte   `json:"meta,omitempty"`
	Streams []Stream `json:"streams"` // the n-th is in file n; then those that are another's
}

const indexName = "index.json"

// Share is one that is being written. Streams may be made and written concurrently. It
// must end with Commit or Abort.
type Share struct {
	stage *Stage
	id    store.ID
	dir   string // until it is committed

	mu    sync.Mutex
	ended error // why nothing can be added
	names []string
	files []*os.File
	lent  []Stream // that are another checkpoint's
}

var errEnded = errors.New("the share has ended")

// Create begins a share. What there is of one of that name goes, also one that is being
// written, whose writer is told: it is of an attempt that failed.
func (s *Stage) Create(id store.ID) (*Share, error) {
	s.mu.Lock()
	before := s.making[id]
	s.mu.Unlock()
	if before != nil {
		if err := before.Abort(); err != nil {
			return nil, err
		}
	}
	if err := s.Delete(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := &Share{stage: s, id: id, dir: s.path(id) + beingMade}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making[id] = h
	return h, nil
}

// over forgets a share that is not written any more.
func (s *Stage) over(h *Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.making[h.id] == h {
		delete(s.making, h.id)
	}
}

// Create begins a stream. What it returns is an *os.File, so that the kernel can move pages
// into it. Each name can be used once.
func (h *Share) Create(name string) (io.WriteCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return nil, fmt.Errorf("stream %s: %w", name, h.ended)
	}
	if h.has(name) {
		return nil, fmt.Errorf("stream %s: %w", name, fs.ErrExist)
	}
	f, err := os.OpenFile(h.file(len(h.names)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	h.names = append(h.names, name)
	h.files = append(h.files, f)
	return f, nil
}

// Carry makes a stream of another checkpoint, which is in the store, one of this share under the
// same name. The share is of no use without it: who has it deleted must know.
func (h *Share) Carry(name string, from store.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return fmt.Errorf("stream %s: %w", name, h.ended)
	}
	if h.has(name) {
		return fmt.Errorf("stream %s: %w", name, fs.ErrExist)
	}
	h.lent = append(h.lent, Stream{Name: name, From: &from})
	return nil
}

// has tells whether a name was used. The caller holds h.mu.
func (h *Share) has(name string) bool {
	return slices.Contains(h.names, name) || slices.ContainsFunc(h.lent, func(s Stream) bool { return s.Name == name })
}

func (h *Share) file(n int) string { return filepath.Join(h.dir, strconv.Itoa(n)) }

// Commit makes the share exist, with a description of the caller's. All streams must have
// been closed. After an error only Abort is left.
func (h *Share) Commit(meta []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	h.ended = errEnded
	x := index{Meta: meta, Streams: make([]Stream, len(h.names))}
	var g errgroup.Group
	g.SetLimit(16) // file systems sync many at the price of one
	for n, name := range h.names {
		g.Go(func() (err error) {
			x.Streams[n], err = h.settle(n, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	x.Streams = append(x.Streams, h.lent...)
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(h.dir, indexName), b); err != nil {
		return err
	}
	if err := syncFolder(h.dir); err != nil {
		return err
	}
	if err := os.Rename(h.dir, h.stage.path(h.id)); err != nil {
		return err
	}
	h.dir = ""
	h.stage.over(h)
	return syncFolder(h.stage.dir)
}

// settle makes a stream durable. Memory has nothing to sync.
func (h *Share) settle(n int, name string) (Stream, error) {
	f, err := os.Open(h.file(n))
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

func write(name string, b []byte) error {
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

// Abort removes a share that is not committed; who still writes to it gets an error. It
// may be called twice, and after Commit, which it leaves alone.
func (h *Share) Abort() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir == "" {
		return nil
	}
	h.ended = errEnded
	for _, f := range h.files {
		f.Close() // most are closed
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return err
	}
	h.dir = ""
	h.stage.over(h)
	return nil
}

// Kept is a share as it is read. It holds nothing open.
type Kept struct {
	Meta    []byte
	Streams []Stream
	dir     string
}

// Open returns a share. Its error wraps ErrLost when there is none, or it is damaged.
func (s *Stage) Open(id store.ID) (*Kept, error) {
	name := filepath.Join(s.path(id), indexName)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, blame(err)
	}
	var x index
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLost, name, err)
	}
	return &Kept{Meta: x.Meta, Streams: x.Streams, dir: s.path(id)}, nil
}

// CopyTo writes the n-th stream, which is not another checkpoint's, to w. An error of the share wraps ErrLost.
func (k *Kept) CopyTo(w io.Writer, n int) error {
	f, err := os.Open(filepath.Join(k.dir, strconv.Itoa(n)))
	if err != nil {
		return blame(err)
	}
	defer f.Close()
	r := &blamed{f: f}
	buf := make([]byte, min(copySize, max(1, k.Streams[n].Size)))
	got, err := io.CopyBuffer(struct{ io.Writer }{w}, r, buf)
	if err == nil && got != k.Streams[n].Size {
		err = fmt.Errorf("%w: %s has %d bytes of %d", ErrLost, f.Name(), got, k.Streams[n].Size)
	}
	return err
}

const copySize = 256 << 10

// blamed tells the errors of a share from those of whom it is copied to.
type blamed struct{ f *os.File }

func (b *blamed) Read(p []byte) (int, error) {
	n, err := b.f.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = blame(err)
	}
	return n, err
}

// blame marks what no second try would mend.
func blame(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}
