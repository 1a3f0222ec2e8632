// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Block is a block of a Pool, and an account of the parts of memory that show the block. Each part belongs to an owner,
// and the owner's memory is on a device or has left the device for the host's memory.
type Block struct {
	pool   *Pool
	offset uint64
	empty  bool // see Pool.AddEmpty

	// The Pool's lock guards these.
	shown  int                   // parts that show the block, and other uses
	here   int                   // of these, those on the device
	kept   int                   // of these, the results of kernels that have the block
	onHost bool                  // the bytes are in the host's memory
	copied bool                  // the host's memory has had the bytes before
	sums   map[[32]byte][16]byte // hashes, by their keys
}

// mostSums is for how many keys a block keeps its hash. Each of the capsules that share a device has a key of its own.
const mostSums = 16

// Show has a part of memory show the block, in the place of the part's bytes. Bytes that are written to the part later
// are the part's alone. No other thread may use the part meanwhile.
func (b *Block) Show(part []byte) error {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.views >= mostViews {
		return errFull
	}
	if err := mapAt(part, int(p.file.Fd()), b.offset); err != nil {
		return fmt.Errorf("show a block of common memory: %w", err)
	}
	p.views++
	return nil
}

// Hide undoes Show: the part is memory of its own, and zero.
func (b *Block) Hide(part []byte) error {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := mapAnonymous(part); err != nil {
		return fmt.Errorf("memory in the place of a common block: %w", err)
	}
	p.views--
	return nil
}

// Forget is Hide for a part that is unmapped, or shows another block.
func (b *Block) Forget() {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.views--
}

// NoteWritten counts a part that shows the block and was written.
func (b *Block) NoteWritten() {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.written++
}

// Hold counts a use of the block, on the device or not. Drop must follow.
func (b *Block) Hold(here bool) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.shown++
	if here {
		b.here++
	}
}

// Drop is Hold's reverse. With the last use the block is gone.
func (b *Block) Drop(here bool) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.shown--
	if here {
		b.here--
	}
	if b.shown == 0 {
		b.freeMemory()
	}
}

// Keep counts a result of a kernel that has the block. Release must follow.
func (b *Block) Keep() {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.shown++
	b.kept++
}

// Release undoes Keep.
func (b *Block) Release() {
	b.pool.mu.Lock()
	b.kept--
	b.pool.mu.Unlock()
	b.Drop(false)
}

// IsOnlyKept tells whether only results of kernels have the block: no part shows it.
func (b *Block) IsOnlyKept() bool {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return b.shown == b.kept
}

// IsEmpty tells whether the block has no bytes that count.
func (b *Block) IsEmpty() bool { return b.empty }

// Read reads the block's bytes.
func (b *Block) Read(p []byte) error {
	if _, err := b.pool.file.ReadAt(p, int64(b.offset)); err != nil {
		return fmt.Errorf("read a block of common memory: %w", err)
	}
	return nil
}

// freeMemory gives the block's memory back to the kernel. The caller holds the Pool's mu.
func (b *Block) freeMemory() {
	p := b.pool
	// Where this fails, the memory stays until other bytes take the place.
	_ = unix.Fallocate(int(p.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(b.offset), int64(p.size))
	// The lowest offset is used first: parts that show neighbours are a single mapping for the kernel.
	i, _ := slices.BinarySearchFunc(p.free, b.offset, func(at, wanted uint64) int { return cmp.Compare(wanted, at) })
	p.free = slices.Insert(p.free, i, b.offset)
}

// Leave is called when the owner of a part leaves the device. Leave returns how many bytes have to be copied to the
// host's memory for that: 0 while another owner is on the device, and if the host's memory had the bytes before.
func (b *Block) Leave() uint64 {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.here--; b.here > 0 || b.onHost {
		return 0
	}
	b.onHost = true
	if b.copied {
		return 0
	}
	b.copied = true
	return b.pool.size
}

// ComeBack undoes Leave.
func (b *Block) ComeBack() uint64 {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.here++; !b.onHost {
		return 0
	}
	b.onHost = false
	return b.pool.size
}

// Arrive notes that the device has the bytes from elsewhere, or that the host's memory has. It returns whether they were
// in the host's memory alone, and are on the device now.
func (b *Block) Arrive(device, host bool) (came bool) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	came = b.onHost && device
	b.onHost = b.onHost && !device
	b.copied = b.copied || host
	return came
}

// Sum is the hash of the block under a key. Only the first call with a key calls hash, as long as there are not too many.
// An error of hash is returned, and the next call calls hash again.
func (b *Block) Sum(key [32]byte, hash func() ([16]byte, error)) ([16]byte, error) {
	b.pool.mu.Lock()
	sum, known := b.sums[key]
	b.pool.mu.Unlock()
	if known {
		return sum, nil
	}
	sum, err := hash()
	if err != nil {
		return sum, err
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.sums == nil || len(b.sums) >= mostSums {
		b.sums = map[[32]byte][16]byte{}
	}
	b.sums[key] = sum
	return sum, nil
}
