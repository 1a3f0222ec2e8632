// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"time"
)

// Errors that a Backend wraps, besides fs.ErrNotExist, fs.ErrExist and those of ctx.
// An error for want of space wraps syscall.ENOSPC or syscall.EDQUOT.
var (
	// ErrNotEmpty says that a folder to be removed has something in it.
	ErrNotEmpty = errors.New("folder not empty")
	// ErrForeign says that a name is not what the store put there: a symbolic link, a
	// file of another owner, with another mode, of another type, or too long.
	ErrForeign = errors.New("not the store's own file")
)

// Info describes a file or folder.
type Info struct {
	Size    int64 // what goes with it; about, if it shares blocks with others; 0 for a folder
	Dir     bool
	ModTime time.Time // by the clock of the file system; never compared with a node's
}

// File is one to be put.
type File struct {
	Name string
	Data []byte
}

// Compacter is a Backend that keeps files together where it can, and so may hold on to
// the room of some that were removed.
type Compacter interface {
	// Compact wins back such room, of files in these folders.
	Compact(ctx context.Context, dirs []string) error
}

// Backend is a folder tree that several nodes share. Names are slash-separated and
// relative, without "." or "..". All methods may be called concurrently, and stop early
// with ctx's error. storetest.Run is the definition; package posix implements it.
type Backend interface {
	// Put makes files, or replaces them. At no time does anyone see a part of one, and
	// the bytes are on stable storage before the name is visible. Many in one call share
	// the cost of that. Folders must exist, else fs.ErrNotExist. After an error some of
	// the files may be there. What a killed Put leaves lies in tmp/.
	Put(ctx context.Context, files ...File) error
	// Get returns the bytes of a file of at most limit bytes, else ErrForeign. buf's
	// storage is used when it is large enough.
	Get(ctx context.Context, name string, limit int, buf []byte) ([]byte, error)
	// Stat describes a file or folder.
	Stat(ctx context.Context, name string) (Info, error)
	// List calls f with the name of each thing in dir, in no order, until f returns an error, which it
	// returns. What is made or removed meanwhile may or may not be among it.
	List(ctx context.Context, dir string, f func(name string) error) error
	// Move renames a file. At every moment at least one of the names is there. It never
	// replaces: fs.ErrExist. When from, or the folder of to, is gone: fs.ErrNotExist.
	Move(ctx context.Context, from, to string) error
	// Remove removes a file or an empty folder, else ErrNotEmpty. A file that was moved
	// or put into a folder before it was removed kept it from being removed; no later
	// move or put into it succeeds, even one that began earlier.
	Remove(ctx context.Context, name string) error
	// Mkdir makes a folder, durably. If it is there: fs.ErrExist.
	Mkdir(ctx context.Context, dir string) error
	// Sync makes names in these folders durable, whoever put, moved or removed them.
	Sync(ctx context.Context, dirs ...string) error
	// Refresh sees to it that what other nodes did in a folder before the call is seen
	// after it. List does so too.
	Refresh(ctx context.Context, dir string) error
	// Free returns the bytes that can still be written here.
	Free(ctx context.Context) (uint64, error)
}
