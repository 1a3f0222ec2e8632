// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openFile opens a name below the root; the caller closes fd.
func (b *Backend) openFile(name string, flags uint64) (fd int, err error) {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath}
	err = retryInterrupted(func() error {
		fd, err = unix.Openat2(b.root, name, how)
		if errors.Is(err, unix.EAGAIN) { // the kernel could not rule out a race with a rename
			return unix.EINTR
		}
		return err
	})
	return fd, err
}

// openParent opens the folder of a name; the caller closes fd.
func (b *Backend) openParent(name string) (fd int, base string, err error) {
	dir, base := path.Split(name)
	fd, err = b.openFile(path.Clean("./"+dir), unix.O_PATH|unix.O_DIRECTORY)
	return fd, base, err
}

// inFolderOf calls f with a name's folder.
func (b *Backend) inFolderOf(ctx context.Context, op, name string, f func(dir int, base string) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	dir, base, err := b.openParent(name)
	if err != nil {
		return pathError(op, name, err)
	}
	defer unix.Close(dir)
	return pathError(op, name, retryInterrupted(func() error { return f(dir, base) }))
}

// Stat describes a name and follows no links. A Writer asks for each new chunk, which is not there:
// Stat opens the name itself, which takes a single call instead of three.
func (b *Backend) Stat(ctx context.Context, name string) (info store.Info, err error) {
	if err := context.Cause(ctx); err != nil {
		return info, err
	}
	fd, err := b.openFile(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return info, pathError("stat", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return info, pathError("stat", name, err)
	}
	info = store.Info{Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, ModTime: time.Unix(st.Mtim.Unix())}
	if !info.Dir {
		info.Size = st.Size / max(int64(st.Nlink), 1)
	}
	return info, nil
}

// Mkdir makes a durable folder with mode 0700.
func (b *Backend) Mkdir(ctx context.Context, name string) error {
	err := b.inFolderOf(ctx, "mkdir", name, func(dir int, base string) error {
		return unix.Mkdirat(dir, base, 0o700)
	})
	if err != nil {
		return err
	}
	return b.Sync(ctx, path.Dir(name))
}

// Remove removes a file or an empty folder.
func (b *Backend) Remove(ctx context.Context, name string) error {
	return b.inFolderOf(ctx, "remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// Move renames without replacing. On a file system that cannot do so (NFS), a link is made and the old name removed:
// both names exist for a moment.
func (b *Backend) Move(ctx context.Context, from, to string) error {
	return b.inFolderOf(ctx, "move", from, func(olddir int, old string) error {
		return b.inFolderOf(ctx, "move", to, func(newdir int, new string) error {
			err := unix.Renameat2(olddir, old, newdir, new, unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP) {
				return err
			}
			return linkAndUnlink(olddir, old, newdir, new)
		})
	})
}

// linkAndUnlink is a move on file systems without RENAME_NOREPLACE, such as NFS.
func linkAndUnlink(olddir int, old string, newdir int, new string) error {
	err := unix.Linkat(olddir, old, newdir, new, 0)
	var st unix.Stat_t
	if errors.Is(err, unix.EPERM) && unix.Fstatat(olddir, old, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		// A folder in the place of a file has no links. Its rename can replace an empty folder only.
		return unix.Renameat(olddir, old, newdir, new)
	}
	if err != nil {
		return err
	}
	err = unix.Unlinkat(olddir, old, 0)
	if errors.Is(err, unix.ENOENT) {
		err = nil // as if the file had been moved, then removed by other processes at its old name
	}
	return err
}

// List calls f with the names in a folder. Opening the folder makes NFS ask the server.
func (b *Backend) List(ctx context.Context, name string, f func(string) error) error {
	fd, err := b.openFile(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return pathError("list", name, err)
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			if err := f(n); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return pathError("list", name, err)
		}
	}
}

// Sync fsyncs the folders, several at a time, so that they share a commit of the journal.
func (b *Backend) Sync(ctx context.Context, names ...string) error {
	return forEach(len(names), func(i int) error {
		return b.inFolder(ctx, "sync", names[i], func(fd int) error {
			err := unix.Fsync(fd)
			if errors.Is(err, unix.EINVAL) { // this file system needs no fsync of folders
				return nil
			}
			return err
		})
	})
}

// Refresh opens the folder: close-to-open consistency makes NFS ask the server whether the folder has changed, and then
// forget the names that it remembers.
func (b *Backend) Refresh(ctx context.Context, name string) error {
	return b.inFolder(ctx, "refresh", name, func(int) error { return nil })
}

// inFolder opens a folder for f.
func (b *Backend) inFolder(ctx context.Context, op, name string, f func(fd int) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fd, err := b.openFile(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return pathError(op, name, err)
	}
	defer unix.Close(fd)
	return pathError(op, name, retryInterrupted(func() error { return f(fd) }))
}
