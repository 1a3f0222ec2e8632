// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// maxCounted bounds the entries of a folder that PackedBytes looks at.
const maxCounted = 1 << 15

// PackedBytes estimates how long the stream is that Pack makes of a folder, from at most maxCounted of its entries.
// Unlike Pack, PackedBytes may run while processes change the folder. Entries that cannot be read do not count.
func PackedBytes(ctx context.Context, dir string) uint64 {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	c := packCounter{ctx: ctx, left: maxCounted, links: map[[2]uint64]bool{}}
	c.countFolder(fd, 0)
	return c.sum
}

type packCounter struct {
	ctx   context.Context
	sum   uint64
	left  int                // entries that may still be counted
	links map[[2]uint64]bool // files with several names, by device and inode
}

// countFolder counts the content of the open folder fd with a path of so many bytes, and closes fd. By descriptors and
// never through links or into mounts, as Pack.
func (c *packCounter) countFolder(fd, path int) {
	d := os.NewFile(uintptr(fd), "")
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if c.left == 0 || c.ctx.Err() != nil {
				return
			}
			c.left--
			c.countChild(fd, path+1+len(name), name)
		}
		if err != nil {
			return
		}
	}
}

func (c *packCounter) countChild(dir, path int, name string) {
	var st unix.Stat_t
	if path > maxPath || unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != nil {
		return
	}
	const header = 256 // about
	c.sum += header + uint64(path)
	switch typeOf(st) {
	case Dir:
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV,
		})
		if err == nil {
			c.countFolder(fd, path)
		}
	case Regular:
		if st.Nlink > 1 {
			id := [2]uint64{st.Dev, st.Ino}
			if c.links[id] {
				return
			}
			c.links[id] = true
		}
		c.sum += uint64(min(st.Size, st.Blocks*512)) //nolint:gosec // sizes
	case Symlink, Fifo, Other, Missing:
	}
}
