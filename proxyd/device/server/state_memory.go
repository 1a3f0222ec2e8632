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

// blockState is a block that was written: the index-th of a file. Hash tells it from all other blocks under the state's
// key.
type blockState struct {
	Hash  string `json:"hash"`
	File  string `json:"file"`
	Index int    `json:"index"`
}

// placedBlock names the content of a block of a space, by its number in serverState.Blocks. Blocks that are not named are
// zero.
type placedBlock struct {
	ID    backend.BlockID `json:"id"`
	Block int             `json:"block"`
}

// blockWriter writes the new blocks of the blocks that it is shown. The goroutine that finds a new block writes it at
// once, into any free file: the bytes are still in that core's cache.
type blockWriter struct {
	ctx    context.Context
	key    *[32]byte
	upon   *earlierSave // nil: every block is new
	report *Report
	fresh  idleFiles // for blocks that are new
	moved  idleFiles // for blocks of files of which too few blocks are needed: see earlier

	mu      sync.Mutex
	number  map[backend.Hash]int // in blocks
	blocks  []blockState
	lengths map[string]int // of files, in blocks; once finished
	err     error
}

// idleFiles are the idle files, of several that are written side by side.
type idleFiles chan *blockFile

// blockFile is a file of a save, made for its first block.
type blockFile struct {
	name   string
	sink   Sink
	to     io.WriteCloser
	buffer []byte
	blocks int
}

// maxHands is how many files are written, or read, at a time.
const maxHands = 8

// newBlockWriter begins files with names that begin with name. finishFiles must follow.
func newBlockWriter(ctx context.Context, sink Sink, name string, key *[32]byte, upon *earlierSave, r *Report) *blockWriter {
	w := &blockWriter{ctx: ctx, key: key, upon: upon, number: map[backend.Hash]int{}, lengths: upon.fileLengths(), report: r}
	w.fresh, w.moved = newHands(sink, name), newHands(sink, name+"-moved")
	return w
}

func newHands(sink Sink, name string) idleFiles {
	n := min(runtime.GOMAXPROCS(0), maxHands)
	h := make(idleFiles, n)
	for i := range n {
		h <- &blockFile{name: fmt.Sprintf("%s-%d", name, i), sink: sink}
	}
	return h
}

// addSpace writes the new blocks of a space and returns the content of all blocks that are not zero. finishFiles
// returns errors of files.
func (w *blockWriter) addSpace(s backend.Space) ([]placedBlock, error) {
	var out []placedBlock
	err := s.Blocks(w.key, func(id backend.BlockID, h backend.Hash) bool {
		w.mu.Lock()
		w.report.Bytes += backend.Granule
		n, to := w.lookUpBlock(h)
		if n >= 0 {
			out = append(out, placedBlock{id, n})
		}
		w.mu.Unlock()
		err := w.ctx.Err()
		if err == nil && to != nil {
			err = w.writeBlock(to, s, id, n)
		}
		return !w.keepFirstError(err)
	})
	slices.SortFunc(out, func(a, b placedBlock) int { return a.ID.Compare(b.ID) })
	return out, err
}

// lookUpBlock finds the number of a block, -1 if it is zero, and the files to write it to, nil if it is not written.
// The caller holds mu.
func (w *blockWriter) lookUpBlock(h backend.Hash) (n int, to idleFiles) {
	if h == (backend.Hash{}) {
		w.report.Zero += backend.Granule
		return -1, nil
	}
	n, ok := w.number[h]
	if ok {
		w.report.Twice += backend.Granule
		return n, nil
	}
	n = len(w.blocks)
	w.number[h] = n
	at, known := w.upon.findBlock(h)
	switch {
	case !known:
		to = w.fresh
	case !w.upon.isWorthKeeping(at.file):
		to, at = w.moved, blockPosition{}
	}
	w.blocks = append(w.blocks, blockState{Hash: hex.EncodeToString(h[:]), File: at.file, Index: at.index})
	if to == nil {
		w.report.Known += backend.Granule
	} else {
		w.report.Written += backend.Granule
	}
	return n, to
}

// keepFirstError keeps the first error, and tells whether there was one.
func (w *blockWriter) keepFirstError(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return w.err != nil
}

// writeBlock writes the n-th block into a free file of to.
func (w *blockWriter) writeBlock(to idleFiles, s backend.Space, id backend.BlockID, n int) error {
	f := <-to
	defer func() { to <- f }()
	if err := f.writeBlock(s, id); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocks[n].File, w.blocks[n].Index = f.name, f.blocks-1
	return nil
}

func (f *blockFile) writeBlock(s backend.Space, id backend.BlockID) (err error) {
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

// finishFiles ends the files and returns all blocks, with their places.
func (w *blockWriter) finishFiles() ([]blockState, error) {
	for _, to := range []idleFiles{w.fresh, w.moved} {
		for range cap(to) {
			f := <-to
			if f.to == nil {
				continue
			}
			if err := f.to.Close(); err != nil {
				w.keepFirstError(fmt.Errorf("%s: %w", f.name, err))
			}
			w.lengths[f.name] = f.blocks
		}
	}
	return w.blocks, w.err
}

// target is a block of a space that is to be written.
type target struct {
	device backend.Device // of the machine's
	backend.SpaceBlock
}

// writeTargets writes a block's bytes to their targets. If several targets are on a device, the device may hold the
// bytes once, also together with blocks that hold the bytes already.
func writeTargets(to, alike []target, p []byte) error {
	shared := map[backend.BlockSharer][]backend.SpaceBlock{}
	for _, t := range to {
		if d, is := t.device.(backend.BlockSharer); is {
			shared[d] = append(shared[d], t.SpaceBlock)
			continue
		}
		if err := t.Space.WriteBlock(t.ID, p); err != nil {
			return err
		}
	}
	for d, blocks := range shared {
		var same []backend.SpaceBlock
		for _, t := range alike {
			if t.device == d.(backend.Device) {
				same = append(same, t.SpaceBlock)
			}
		}
		if err := d.WriteBlocks(blocks, same, p); err != nil {
			return err
		}
	}
	return nil
}

// readBlocks brings back all blocks. Each file is read once, from its beginning.
func (s *Server) readBlocks(ctx context.Context, src Source, blocks []blockState, targets map[int][]target) error {
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
			if err := s.readFile(ctx, src, name, f.last, f.targets); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Server) readFile(ctx context.Context, src Source, name string, last int, targets map[int][]target) error {
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
		if err := s.machine.restored.writeTargets(s, targets[i], buffer); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}
