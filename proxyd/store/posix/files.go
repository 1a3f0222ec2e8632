// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// putsAtOnce is the number of files of a Put, or folders of a Sync, that are in flight: on NFS each waits for the
// server.
const putsAtOnce = 8

// Put writes to tmp/, makes the files durable, and then gives them their names. Files that are named by hashes go into
// a single pack.
func (b *Backend) Put(ctx context.Context, files ...store.File) error {
	if head := packHeader(files); head != nil {
		return b.putPack(ctx, head, files)
	}
	return forEach(len(files), func(i int) error { return b.putFile(ctx, files[i]) })
}

// temporaryName returns a name in tmp/ that is not in use.
func (b *Backend) temporaryName() string {
	return "tmp/" + b.id + "-" + strconv.FormatUint(b.n.Add(1), 36)
}

// discardTemporary removes a temporary file after a failure. If the removal fails, a collector removes the file.
func (b *Backend) discardTemporary(ctx context.Context, tmp string) {
	_ = b.Remove(context.WithoutCancel(ctx), tmp)
}

func (b *Backend) putFile(ctx context.Context, f store.File) error {
	tmp := b.temporaryName()
	err := b.writeDurably(ctx, tmp, f.Data)
	if err == nil {
		err = b.replaceFile(ctx, tmp, f.Name)
	}
	if err != nil {
		b.discardTemporary(ctx, tmp)
		return fmt.Errorf("put %s: %w", f.Name, err)
	}
	return nil
}

// putPack makes a pack and its names.
func (b *Backend) putPack(ctx context.Context, head []byte, files []store.File) error {
	tmp := b.temporaryName()
	parts := make([][]byte, 0, len(files)+1)
	parts = append(parts, head)
	for _, f := range files {
		parts = append(parts, f.Data)
	}
	err := b.writeDurably(ctx, tmp, parts...)
	if err == nil {
		err = b.linkAll(ctx, tmp, files)
	}
	b.discardTemporary(ctx, tmp)
	if err != nil {
		return fmt.Errorf("put %d files: %w", len(files), err)
	}
	return nil
}

// linkAll gives a pack its names, one after the other: the kernel holds the lock of the inode that is linked
// (vfs_link), on NFS too while it asks the server, so that several links at once would only wait for each other.
func (b *Backend) linkAll(ctx context.Context, tmp string, files []store.File) error {
	dir, base, err := b.openParent(tmp)
	if err != nil {
		return pathError("link", tmp, err)
	}
	defer unix.Close(dir)
	for _, f := range files {
		if err := b.linkPack(ctx, dir, base, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// linkPack gives a pack, base in the folder dir, a name, also where the name is there already.
func (b *Backend) linkPack(ctx context.Context, dir int, base, name string) error {
	err := b.hardlinkFile(ctx, dir, base, name)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	second := b.temporaryName()
	if err := b.hardlinkFile(ctx, dir, base, second); err != nil {
		return err
	}
	err = b.replaceFile(ctx, second, name)
	b.discardTemporary(ctx, second) // a rename to another link of the same file leaves the old name
	return err
}

func (b *Backend) hardlinkFile(ctx context.Context, dir int, base, to string) error {
	return b.inFolderOf(ctx, "link", to, func(newdir int, name string) error {
		return unix.Linkat(dir, base, newdir, name, 0)
	})
}

func (b *Backend) replaceFile(ctx context.Context, tmp, name string) error {
	return b.inFolderOf(ctx, "put", tmp, func(olddir int, old string) error {
		return b.inFolderOf(ctx, "put", name, func(newdir int, new string) error {
			return unix.Renameat(olddir, old, newdir, new)
		})
	})
}

// forEach calls f for 0 to n-1, putsAtOnce at a time.
func forEach(n int, f func(int) error) error {
	if n == 1 {
		return f(0)
	}
	var g errgroup.Group
	g.SetLimit(putsAtOnce)
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}

// writeDurably makes a durable file of the parts.
func (b *Backend) writeDurably(ctx context.Context, tmp string, parts ...[]byte) error {
	fd := -1
	err := b.inFolderOf(ctx, "create", tmp, func(dir int, base string) (err error) {
		fd, err = unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	err = writeParts(ctx, fd, parts)
	if err == nil {
		err = retryInterrupted(func() error { return unix.Fsync(fd) })
	}
	// NFS reports a full disk at close.
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return pathError("write", tmp, err)
	}
	return nil
}

// writeParts writes parts in order, many in one call.
func writeParts(ctx context.Context, fd int, parts [][]byte) error {
	const most = 256 // fewer than the kernel's 1024
	for len(parts) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := unix.Writev(fd, parts[:min(len(parts), most)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		parts = skipBytes(parts, n)
	}
	return nil
}

// skipBytes drops the first n bytes of parts, and parts that are then empty. parts is changed.
func skipBytes(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 && n >= len(parts[0]) {
		n -= len(parts[0])
		parts = parts[1:]
	}
	if len(parts) > 0 {
		parts[0] = parts[0][n:]
	}
	return parts
}
