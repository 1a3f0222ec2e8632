// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package posix keeps a store in a folder: of a local disk, NFS or Lustre.
//
// The folder belongs to root alone. No file below it is opened by a path that another user could redirect: each name is
// resolved from the folder's descriptor by openat2, which refuses symbolic links and "..", and each file that is read
// must be a regular file of our own, with mode 0600. So users may have write permission to the folders above.
//
// NFS must be mounted without nocto (Refresh relies on close-to-open consistency)
// and exported with no_root_squash to the nodes.
package posix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Backend is a folder. A Backend is safe for concurrent use until Close.
type Backend struct {
	path string
	root int
	uid  uint32
	id   string // prefix of this process's names in tmp/
	n    atomic.Uint64
}

var _ store.Backend = (*Backend)(nil)

// Open opens the folder at path, which must exist, contain no symbolic link, belong to
// the caller's effective user (root, in a daemon) and have no permission for other users: else the
// error wraps store.ErrForeign. Close closes the folder.
func Open(path string) (*Backend, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	how := &unix.OpenHow{Flags: unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, abs, how)
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%w: symbolic link in the path", store.ErrForeign)
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", abs, err)
	}
	b := &Backend{path: abs, root: fd, uid: uint32(os.Geteuid())}
	b.id = strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(os.Getpid())
	if err := b.checkRoot(); err != nil {
		b.Close()
		return nil, fmt.Errorf("store %s: %w", abs, err)
	}
	return b, nil
}

// Create makes the folder at path with mode 0700 if there is no folder, and opens it.
func Create(path string) (*Backend, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	return Open(path)
}

func (b *Backend) checkRoot() error {
	var st unix.Stat_t
	if err := unix.Fstat(b.root, &st); err != nil {
		return err
	}
	if st.Uid != b.uid {
		return fmt.Errorf("%w: owned by uid %d", store.ErrForeign, st.Uid)
	}
	if st.Mode&0o077 != 0 {
		return fmt.Errorf("%w: mode %04o, want 0700", store.ErrForeign, st.Mode&0o7777)
	}
	return nil
}

// Follow has the backend use the folder that is at its path now, if that is another folder than before: the store was
// moved away and copied back, or is mounted anew. Calls in progress end in the folder in which they began, or fail.
// Follow may be called concurrently with all methods but Close.
func (b *Backend) Follow() error {
	var now, was unix.Stat_t
	if err := unix.Lstat(b.path, &now); err != nil {
		return fmt.Errorf("store %s: %w", b.path, err)
	}
	switch err := unix.Fstat(b.root, &was); {
	case errors.Is(err, unix.ESTALE): // the NFS server no longer has the folder
	case err != nil:
		return fmt.Errorf("store %s: %w", b.path, err)
	case now.Dev == was.Dev && now.Ino == was.Ino:
		return nil
	}
	found, err := Open(b.path)
	if err != nil {
		return err
	}
	defer found.Close()
	if err := unix.Dup3(found.root, b.root, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("store %s: %w", b.path, err)
	}
	return nil
}

// Close closes the folder. No method may be called during Close or after.
func (b *Backend) Close() error { return unix.Close(b.root) }

// Path returns the folder's absolute path.
func (b *Backend) Path() string { return b.path }

// Free returns the bytes that users may still write, as the file system reports them: a quota on the project or folder
// is included, on XFS, ext4 and Lustre.
func (b *Backend) Free(ctx context.Context) (uint64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Fstatfs(b.root, &st) }); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", b.path, err)
	}
	return st.Bavail * uint64(st.Frsize), nil
}

// pathError names the object of a failed call, below the store's folder.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV) {
		err = fmt.Errorf("%w: %w", store.ErrForeign, err)
	}
	if errors.Is(err, unix.ENOTEMPTY) {
		err = fmt.Errorf("%w: %w", store.ErrNotEmpty, err)
	}
	if errors.Is(err, unix.ESTALE) { // NFS: the folder was removed meanwhile
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// retryInterrupted repeats a call that a signal interrupted: Go's runtime sends signals for scheduling, and an NFS
// mounted with intr answers EINTR.
func retryInterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
