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
	"sync"

	"github.com/zeebo/blake3"

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

// zeroHash is the hash of a block of nothing.
func zeroHash(key *[32]byte) (out backend.Hash, err error) {
	h, err := blake3.NewKeyed(key[:])
	if err != nil {
		return out, err
	}
	if _, err := h.Write(make([]byte, backend.Granule)); err != nil {
		return out, err
	}
	_, err = h.Digest().Read(out[:])
	return out, err
}

// blockWriter writes what is new of the blocks it is shown. Several are read and written at a time, each worker into a file of
// its own, while the next ones are hashed.
type blockWriter struct {
	key    *[32]byte
	zero   backend.Hash
	known  map[backend.Hash]place
	number map[backend.Hash]int // in blocks
	blocks []blockState
	report *Report

	work    chan blockWork
	group   sync.WaitGroup
	mu      sync.Mutex
	err     error
	written map[int]place // by number
}

type blockWork struct {
	space  backend.Space
	id     backend.BlockID
	number int
}

// maxHands is how many blocks are read at a time.
const maxHands = 8

// newBlockWriter begins files whose names begin with name. finish must follow.
func newBlockWriter(ctx context.Context, sink Sink, name string, key *[32]byte, known map[backend.Hash]place, r *Report) (*blockWriter, error) {
	zero, err := zeroHash(key)
	if err != nil {
		return nil, err
	}
	hands := min(runtime.GOMAXPROCS(0), maxHands)
	w := &blockWriter{
		key: key, zero: zero, known: known, number: map[backend.Hash]int{}, report: r,
		work: make(chan blockWork, 2*hands), written: map[int]place{},
	}
	for i := range hands {
		w.group.Go(func() { w.hand(ctx, sink, fmt.Sprintf("%s-%d", name, i)) })
	}
	return w, nil
}

// add looks at all blocks of a space and returns what is where.
func (w *blockWriter) add(s backend.Space) ([]placed, error) {
	var out []placed
	err := s.Blocks(w.key, func(id backend.BlockID, h backend.Hash) bool {
		w.report.Bytes += backend.Granule
		if h == w.zero {
			w.report.Zero += backend.Granule
			return true
		}
		n, ok := w.number[h]
		if !ok {
			n = len(w.blocks)
			w.number[h] = n
			at, known := w.known[h]
			w.blocks = append(w.blocks, blockState{Hash: hex.EncodeToString(h[:]), File: at.file, Index: at.index})
			if known {
				w.report.Known += backend.Granule
			} else {
				w.report.Written += backend.Granule
				w.work <- blockWork{s, id, n}
			}
		} else {
			w.report.Twice += backend.Granule
		}
		out = append(out, placed{id, n})
		return !w.failed()
	})
	return out, err
}

func (w *blockWriter) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

func (w *blockWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// hand writes blocks into one file, which is made for the first.
func (w *blockWriter) hand(ctx context.Context, sink Sink, name string) {
	var f io.WriteCloser
	var buffer []byte
	n := 0
	for b := range w.work {
		if w.failed() {
			continue // until add notices
		}
		err := ctx.Err()
		if err == nil && f == nil {
			buffer = make([]byte, backend.Granule)
			f, err = sink.Create(name)
		}
		if err == nil {
			err = copyBlock(f, b, buffer)
		}
		if err != nil {
			w.fail(fmt.Errorf("%s: %w", name, err))
			continue
		}
		w.mu.Lock()
		w.written[b.number] = place{name, n}
		w.mu.Unlock()
		n++
	}
	if f != nil {
		if err := f.Close(); err != nil {
			w.fail(fmt.Errorf("%s: %w", name, err))
		}
	}
}

func copyBlock(to io.Writer, b blockWork, buffer []byte) error {
	some, err := b.space.ReadBlock(b.id, buffer)
	if err != nil {
		return err
	}
	if !some {
		clear(buffer)
	}
	_, err = to.Write(buffer)
	return err
}

// finish waits for the files and returns all blocks, with their places.
func (w *blockWriter) finish() ([]blockState, error) {
	close(w.work)
	w.group.Wait()
	for n, at := range w.written {
		w.blocks[n].File, w.blocks[n].Index = at.file, at.index
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
