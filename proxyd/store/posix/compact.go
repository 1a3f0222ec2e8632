// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

var _ store.Compacter = (*Backend)(nil)

// Compact copies the remaining chunks of packs that lost more than half of their names into new packs, and so frees the
// old packs. Replacing a chunk by its copy disturbs no reader: the content is the same, and a process that has the old
// file open keeps it. Compact may be stopped at any time.
func (b *Backend) Compact(ctx context.Context, dirs []string) error {
	sparse := make(map[uint64]bool) // packs by inode: has the pack lost more than half of its names?
	load := batch{store: b}
	for _, dir := range dirs {
		err := b.List(ctx, dir, func(n string) error {
			name := dir + "/" + n
			dead, err := b.isMostlyDeleted(ctx, name, sparse)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !dead {
				return nil
			}
			if err != nil {
				return err
			}
			return load.addChunk(ctx, name)
		})
		if err != nil {
			return err
		}
	}
	return load.writePack(ctx)
}

// isMostlyDeleted tells whether the pack to which a name belongs has lost more than half of its names.
func (b *Backend) isMostlyDeleted(ctx context.Context, name string, known map[uint64]bool) (bool, error) {
	var st unix.Stat_t
	err := b.inFolderOf(ctx, "stat", name, func(dir int, base string) error {
		return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return false, err
	}
	if dead, ok := known[st.Ino]; ok {
		return dead, nil
	}
	fd, err := b.openFile(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return false, pathError("open", name, err)
	}
	defer unix.Close(fd)
	head, err := readAt(fd, extent{0, min(st.Size, packHead)}, nil)
	if err != nil {
		return false, pathError("read", name, err)
	}
	n, err := packCount(head)
	known[st.Ino] = err == nil && int64(n) > 2*int64(st.Nlink)
	return known[st.Ino], nil
}

// batch collects chunks for a new pack.
type batch struct {
	store *Backend
	files []store.File
	bytes int
}

// maxBatch is the largest content of a new pack that is held in memory.
const maxBatch = 8 << 20

func (b *batch) addChunk(ctx context.Context, name string) error {
	data, err := b.store.Get(ctx, name, maxBatch, nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrForeign) {
		return nil // swept meanwhile, or damaged, which Verify reports
	}
	if err != nil {
		return err
	}
	if b.bytes+len(data) > maxBatch || len(b.files) == maxPack {
		if err := b.writePack(ctx); err != nil {
			return err
		}
	}
	b.files = append(b.files, store.File{Name: name, Data: data})
	b.bytes += len(data)
	return nil
}

func (b *batch) writePack(ctx context.Context) error {
	if len(b.files) == 0 {
		return nil
	}
	err := b.store.Put(ctx, b.files...)
	b.files, b.bytes = nil, 0
	return err
}
