// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// blockState is a block that was written: the index-th of a file. Hash tells it from all others under the state's key.
type blockState struct {
	Hash  string `json:"hash"`
	File  string `json:"file"`
	Index int    `json:"index"`
}

// placed says what is in a block of a space, by its number in serverState.Blocks. Blocks that are not named are zero.
type placed struct {
	ID    backend.BlockID `json:"id"`
	Block int             `json:"block"`
}

// place is where a block's bytes are.
type place struct {
	file  string
	index int
}

// blockWriter writes what is new of the blocks it is shown. Who finds a new one writes it at once, into one of some files: its
// bytes are still in that core's cache.
type blockWriter struct {
	ctx    context.Context
	key    *[32]byte
	known  map[backend.Hash]place
	report *Report
	idle   chan *blockFile // those that nobody writes

	mu     sync.Mutex
	number map[backend.Hash]int // in blocks
	blocks []blockState
	err    error
}

// blockFile is one of a save's files, made for its first block.
type blockFile struct {
	name   string
	sink   Sink
	to     io.WriteCloser
	buffer []byte
	blocks int
}

// maxHands is how many files are written, or read, at a time.
const maxHands = 8

// newBlockWriter begins files whose names begin with name. finish must follow.
func newBlockWriter(ctx context.Context, sink Sink, name string, key *[32]byte, known map[backend.Hash]place, r *Report) *blockWriter {
	hands := min(runtime.GOMAXPROCS(0), maxHands)
	w := &blockWriter{ctx: ctx, key: key, known: known, number: map[backend.Hash]int{}, report: r, idle: make(chan *blockFile, hands)}
	for i := range hands {
		w.idle <- &blockFile{name: fmt.Sprintf("%s-%d", name, i), sink: sink}
	}
	return w
}

// add looks at all blocks of a space and returns what is where. What goes wrong with files, finish says.
func (w *blockWriter) add(s backend.Space) ([]placed, error) {
	var out []placed
	err := s.Blocks(w.key, func(id backend.BlockID, h backend.Hash) bool {
		w.mu.Lock()
		w.report.Bytes += backend.Granule
		n, isNew := w.look(h)
		if n >= 0 {
			out = append(out, placed{id, n})
		}
		w.mu.Unlock()
		err := w.ctx.Err()
		if err == nil && isNew {
			err = w.write(s, id, n)
		}
		return !w.failed(err)
	})
	slices.SortFunc(out, func(a, b placed) int { return a.ID.Compare(b.ID) })
	return out, err
}

// look finds the number of a block, -1 if it is zero, and whether it is to be written. The caller holds mu.
func (w *blockWriter) look(h backend.Hash) (n int, isNew bool) {
	if h == (backend.Hash{}) {
		w.report.Zero += backend.Granule
		return -1, false
	}
	n, ok := w.number[h]
	if ok {
		w.report.Twice += backend.Granule
		return n, false
	}
	n = len(w.blocks)
	w.number[h] = n
	at, known := w.known[h]
	w.blocks = append(w.blocks, blockState{Hash: hex.EncodeToString(h[:]), File: at.file, Index: at.index})
	if known {
		w.report.Known += backend.Granule
	} else {
		w.report.Written += backend.Granule
	}
	return n, !known
}

// failed keeps the first error, and tells whether there was one.
func (w *blockWriter) failed(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return w.err != nil
}

// write writes the n-th block into a file.
func (w *blockWriter) write(s backend.Space, id backend.BlockID, n int) error {
	f := <-w.idle
	defer func() { w.idle <- f }()
	if err := f.write(s, id); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocks[n].File, w.blocks[n].Index = f.name, f.blocks-1
	return nil
}

func (f *blockFile) write(s backend.Space, id backend.BlockID) (err error) {
	if f.to == nil {
		f.buffer = make([]byte, backend.Granule)
		if f.to, err = f.sink.Create(f.name); err != nil {
			return err
		}
	}
	some, err := s.ReadBlock(id, f.buffer)
	if err != nil {
		return err
	}
	if !some {
		clear(f.buffer)
	}
	f.blocks++
	_, err = f.to.Write(f.buffer)
	return err
}

// finish ends the files and returns all blocks, with their places.
func (w *blockWriter) finish() ([]blockState, error) {
	for range cap(w.idle) {
		f := <-w.idle
		if f.to == nil {
			continue
		}
		if err := f.to.Close(); err != nil {
			w.failed(fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return w.blocks, w.err
}

// places is the reverse of blockState: what the next save knows.
func places(blocks []blockState) (map[backend.Hash]place, error) {
	out := make(map[backend.Hash]place, len(blocks))
	for _, b := range blocks {
		var h backend.Hash
		raw, err := hex.DecodeString(b.Hash)
		if err != nil || len(raw) != len(h) || b.Index < 0 {
			return nil, fmt.Errorf("block %q at %d: %w", b.Hash, b.Index, ErrRestore)
		}
		copy(h[:], raw)
		out[h] = place{b.File, b.Index}
	}
	return out, nil
}

// target is a block of a space that is to be written.
type target struct {
	space backend.Space
	id    backend.BlockID
}

// readBlocks brings back all blocks. Each file is read once, from its beginning.
func readBlocks(ctx context.Context, src Source, blocks []blockState, targets map[int][]target) error {
	type file struct {
		last    int
		targets map[int][]target // by index
	}
	files := map[string]*file{}
	for n, to := range targets {
		if n < 0 || n >= len(blocks) {
			return fmt.Errorf("block %d of %d: %w", n, len(blocks), ErrRestore)
		}
		b := blocks[n]
		f := files[b.File]
		if f == nil {
			f = &file{targets: map[int][]target{}}
			files[b.File] = f
		}
		f.last = max(f.last, b.Index)
		f.targets[b.Index] = append(f.targets[b.Index], to...)
	}
	hands := make(chan struct{}, min(runtime.GOMAXPROCS(0), maxHands))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for name, f := range files {
		wg.Go(func() {
			hands <- struct{}{}
			defer func() { <-hands }()
			if err := readFile(ctx, src, name, f.last, f.targets); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func readFile(ctx context.Context, src Source, name string, last int, targets map[int][]target) error {
	f, err := src.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer := make([]byte, backend.Granule)
	for i := 0; i <= last; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.ReadFull(f, buffer); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		for _, t := range targets[i] {
			if err := t.space.WriteBlock(t.id, buffer); err != nil {
				return fmt.Errorf("block %d: %w", i, err)
			}
		}
	}
	return nil
}
