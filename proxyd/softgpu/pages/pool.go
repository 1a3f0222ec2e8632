// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// mostViews bounds how many parts of memory show blocks of a Pool, for each process: the kernel takes 65530 mappings
// of a process by default, and a part may split a mapping into three.
const mostViews = 16384

// errFull is why a block cannot be shown, or is not taken.
var errFull = errors.New("no more blocks of memory can be shown in several places")

// Pool holds blocks of bytes, which never change. The file has no name; the kernel frees it with its last user.
type Pool struct {
	size uint64 // of a block

	mu    sync.Mutex
	file  *os.File // nil until the first block comes
	end   uint64
	free  []uint64 // offsets in the file that hold no block
	views int

	written uint64 // parts that showed a block until they were written, in all
}

// NewPool makes a Pool for blocks of a size, which is a multiple of Size.
func NewPool(size uint64) *Pool { return &Pool{size: size} }

// Add takes a block's bytes. The block is freed by the last Drop.
func (p *Pool) Add(bytes []byte) (*Block, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if uint64(len(bytes)) != p.size {
		return nil, fmt.Errorf("a block of %d bytes: %w", len(bytes), errFull)
	}
	b, err := p.takePlace()
	if err != nil {
		return nil, err
	}
	if _, err := p.file.WriteAt(bytes, int64(b.offset)); err != nil {
		p.free = append(p.free, b.offset)
		return nil, fmt.Errorf("keep a block of memory: %w", err)
	}
	return b, nil
}

// AddEmpty makes a block for parts of memory that need no bytes. The block takes no memory until it is read.
func (p *Pool) AddEmpty() (*Block, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.takePlace()
	if err != nil {
		return nil, err
	}
	b.empty = true
	return b, nil
}

// takePlace makes a block with any bytes. The caller holds mu.
func (p *Pool) takePlace() (*Block, error) {
	if Map() == nil {
		return nil, fmt.Errorf("parts that were written cannot be told: %w", errFull)
	}
	if err := p.makePlace(); err != nil {
		return nil, err
	}
	last := len(p.free) - 1
	b := &Block{pool: p, offset: p.free[last]}
	p.free = p.free[:last]
	return b, nil
}

// makePlace makes room for a block, unless there is some. The caller holds mu.
func (p *Pool) makePlace() error {
	if p.file == nil {
		fd, err := unix.MemfdCreate("singularity-common", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("a file for common memory: %w", err)
		}
		p.file = os.NewFile(uintptr(fd), "common memory")
	}
	if len(p.free) > 0 {
		return nil
	}
	// The kernel would end this process with a signal if the file became larger than users' files may be.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur < p.end+p.size {
		return fmt.Errorf("files may have %d bytes: %w", limit.Cur, errFull)
	}
	if err := p.file.Truncate(int64(p.end + p.size)); err != nil {
		return fmt.Errorf("a larger file for common memory: %w", err)
	}
	p.free = append(p.free, p.end)
	p.end += p.size
	return nil
}

// Blocks is how many blocks the Pool holds.
func (p *Pool) Blocks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.end/p.size) - len(p.free)
}

// Written is how many parts showed a block until they were written, in all.
func (p *Pool) Written() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written
}

// Close closes the file. Parts go on to show their blocks.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
