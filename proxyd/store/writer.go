// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// Upload describes the upload for which a Writer is made.
type Upload struct {
	ID          ID
	Node        string       // of the streams written here
	Reservation *Reservation // used up as chunks are put; may be nil
	// Pace is called before n bytes are put, from several goroutines, and may wait; may be nil.
	// An error of Pace is the Writer's failure.
	Pace func(ctx context.Context, n int) error
}

// Writer writes a node's streams of a checkpoint. Streams may be created and written concurrently. The first error of
// any kind, also ENOSPC, is the Writer's failure: every later call returns it, and only Abort may be called. A Writer
// must end with Commit, Finish or Abort, else its claim lives as long as the process.
//
// The job's leader calls Create, then gives Ticket to the other nodes; each of these calls Join, writes, and gives the
// NodeStreams that Finish returns back to the leader, which commits them all. The leader's claim protects all nodes'
// chunks: after its death, or its Abort, the chunks of the other nodes are garbage.
//
// A Writer holds at most 12 MiB + Options.Lanes × 3 MiB, for streams of any length.
type Writer struct {
	st    *Store
	up    Upload
	claim claimName
	own   *claim // nil in a Writer that joined

	ctx     context.Context
	fail    context.CancelCauseFunc
	free    chan []byte // buffers for streams to fill
	chunks  chan chunkTask
	workers sync.WaitGroup
	seen    *recentChunks
	batches *chunkBatches
	folder  [chunkFolders]folderState

	mu      sync.Mutex
	ended   bool
	open    map[StreamID]*Stream // created and not closed
	closed  map[StreamID]StreamInfo
	stats   Stats
	inlined int // bytes of recipes that go into the manifest
}

// chunkTask is a chunk on its way to the store.
type chunkTask struct {
	buf  []byte
	slot *chunkSlot
	kind taskKind
}

type taskKind int

const (
	streamData taskKind = iota
	recipePiece
)

// chunkSlot receives the result of a chunkTask.
type chunkSlot struct {
	runs []run
	size int
	hash Hash          // valid once done is closed
	done chan struct{} // closed by the chunk worker, once the hash is known; never, if the Writer fails
}

// inlineBudget bounds the bytes that a Writer's short streams and recipes add to the manifest.
const inlineBudget = 8 << 20

// Create begins a checkpoint. ctx bounds the whole upload: when ctx is done, the Writer fails. If the checkpoint
// exists, the error is fs.ErrExist.
func (s *Store) Create(ctx context.Context, up Upload) (*Writer, error) {
	if err := up.checkUpload(); err != nil {
		return nil, err
	}
	w := s.newWriter(ctx, up)
	own, err := s.acquireClaim(w.ctx, uploadClaim, up.ID.String(), 0, w.fail)
	if err == nil {
		w.own, w.claim = own, own.name
		if _, err = s.be.Stat(ctx, manifestName(up.ID)); err == nil {
			err = fs.ErrExist
		} else if errors.Is(err, fs.ErrNotExist) {
			w.startWorkers()
			return w, nil
		}
		err = errors.Join(err, own.releaseClaim(ctx))
	}
	w.fail(err)
	return nil, fmt.Errorf("checkpoint %s: %w", up.ID, err)
}

// Ticket is the name by which another node joins an upload. A Ticket is no secret, but must come from the leader.
type Ticket string

// Ticket returns this upload's ticket, valid until the upload's end.
func (w *Writer) Ticket() Ticket { return Ticket(w.claim.String()) }

// Join begins another node's share of the leader's checkpoint. When the leader's upload
// has ended, the error is ErrFenced.
func (s *Store) Join(ctx context.Context, up Upload, t Ticket) (*Writer, error) {
	if err := up.checkUpload(); err != nil {
		return nil, err
	}
	name, ok := parseClaim(string(t))
	if !ok || name.kind != uploadClaim {
		return nil, fmt.Errorf("checkpoint %s: ticket %.120q: not a ticket", up.ID, string(t))
	}
	// Removals by other nodes must be visible here before this node looks for the claim.
	if err := s.be.Refresh(ctx, claimsDir); err != nil {
		return nil, fmt.Errorf("checkpoint %s: join: %w", up.ID, err)
	}
	if _, err := s.be.Stat(ctx, name.folderPath()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrFenced
		}
		return nil, fmt.Errorf("checkpoint %s: join: %w", up.ID, err)
	}
	w := s.newWriter(ctx, up)
	w.claim = name
	w.startWorkers()
	return w, nil
}

func (up Upload) checkUpload() error {
	if err := up.ID.checkName(); err != nil {
		return fmt.Errorf("checkpoint %s: %w", up.ID, err)
	}
	if !clusterName.MatchString(up.Node) {
		return fmt.Errorf("checkpoint %s: node %.80q: bad name", up.ID, up.Node)
	}
	return nil
}

func (s *Store) newWriter(ctx context.Context, up Upload) *Writer {
	w := &Writer{
		st: s, up: up,
		free:   make(chan []byte, 2*s.opt.Lanes),
		chunks: make(chan chunkTask),
		seen:   newRecent(),
		open:   make(map[StreamID]*Stream),
		closed: make(map[StreamID]StreamInfo),
	}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	w.batches = newBatches(w)
	return w
}

// startWorkers starts the chunk workers, when no step can fail any more. Buffers get memory when a stream needs them,
// and keep it.
func (w *Writer) startWorkers() {
	for range cap(w.free) {
		w.free <- nil
	}
	for range w.st.opt.Lanes {
		w.workers.Go(w.runChunkWorker)
	}
}

// Err returns the Writer's failure, or nil.
func (w *Writer) Err() error {
	if err := context.Cause(w.ctx); err != nil {
		return fmt.Errorf("checkpoint %s: %w", w.up.ID, err)
	}
	return nil
}

// Stats returns the numbers of bytes and chunks so far.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

func (w *Writer) addStats(s Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.addStats(s)
}

// Stream begins a stream of this Writer's node; rank is None for a stream that belongs to the node as a whole. Each
// name can be used once.
func (w *Writer) Stream(rank int, name string) (*Stream, error) {
	return w.beginStream(rank, name, 0)
}

// Blocks is Stream for a stream of blocks of length bytes, a multiple of 4096. No chunk has bytes of two blocks, and a
// block's chunks depend on its bytes alone: two streams with equal blocks in any order share all chunks of these.
func (w *Writer) Blocks(rank int, name string, length int64) (*Stream, error) {
	return w.beginStream(rank, name, length)
}

func (w *Writer) beginStream(rank int, name string, block int64) (*Stream, error) {
	id := StreamID{w.up.Node, rank, name}
	if err := errors.Join(w.Err(), id.checkName()); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, fmt.Errorf("checkpoint %s: stream %s: %w", w.up.ID, id, ErrClosed)
	}
	_, written := w.closed[id]
	if w.open[id] != nil || written {
		return nil, fmt.Errorf("checkpoint %s: stream %s: %w", w.up.ID, id, fs.ErrExist)
	}
	st := &Stream{w: w, id: id, block: block}
	w.open[id] = st
	return st, nil
}

// reserveInline takes n bytes of the manifest, if there is space.
func (w *Writer) reserveInline(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inlined+n > inlineBudget {
		return false
	}
	w.inlined += n
	return true
}

// closeStream notes that a stream is closed.
func (w *Writer) closeStream(info StreamInfo, st Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, info.StreamID)
	w.closed[info.StreamID] = info
	w.stats.addStats(st)
}
