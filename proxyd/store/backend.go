// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"time"
)

// Errors that a Backend wraps, besides fs.ErrNotExist, fs.ErrExist and errors of ctx. An error for
// lack of space wraps syscall.ENOSPC or syscall.EDQUOT.
var (
	// ErrNotEmpty means that a folder to be removed is not empty.
	ErrNotEmpty = errors.New("folder not empty")
	// ErrForeign means that a name is not a file of the store: a symbolic link, a file of another
	// owner, with another mode, of another type, or too long.
	ErrForeign = errors.New("not the store's own file")
)

// Info describes a file or folder.
type Info struct {
	Size    int64 // bytes freed by its removal; approximate for blocks shared with other files; 0 for a folder
	Dir     bool
	ModTime time.Time // by the clock of the file system; never compared with a node's clock
}

// File is a file to be put.
type File struct {
	Name string
	Data []byte
}

// Compacter is a Backend that stores several files together, so that the space of a removed file may stay in use.
type Compacter interface {
	// Compact frees the space of removed files of these folders.
	Compact(ctx context.Context, dirs []string) error
}

// Backend is a folder tree that several nodes share. Names are slash-separated and
// relative, without "." or "..". All methods may be called concurrently, and stop early
// with ctx's error. storetest.Run is the definition; package posix implements it.
type Backend interface {
	// Put creates files, or replaces them. No reader ever sees a part of a file, and the bytes are on stable storage
	// before the name is visible. The files of one call share the cost of that. Folders must exist, else fs.ErrNotExist.
	// After an error some of the files may exist. A killed Put leaves files in tmp/ only.
	Put(ctx context.Context, files ...File) error
	// Get returns the bytes of a file of at most limit bytes, else ErrForeign. Get uses buf's
	// storage if that is large enough.
	Get(ctx context.Context, name string, limit int, buf []byte) ([]byte, error)
	// Stat describes a file or folder.
	Stat(ctx context.Context, name string) (Info, error)
	// List calls f with each name in dir, in no order, until f returns an error, which List
	// returns. Names that are added or removed meanwhile may be missing.
	List(ctx context.Context, dir string, f func(name string) error) error
	// Move renames a file. At every moment at least one name exists. Move never replaces a file: the error is then
	// fs.ErrExist. If from, or the folder of to, is missing, the error is fs.ErrNotExist.
	Move(ctx context.Context, from, to string) error
	// Remove removes a file or an empty folder, else ErrNotEmpty. A move or put into the folder
	// before the removal prevents the removal; a later move or put into the folder fails, even if
	// begun earlier.
	Remove(ctx context.Context, name string) error
	// Mkdir creates a folder, durably. If the folder exists, the error is fs.ErrExist.
	Mkdir(ctx context.Context, dir string) error
	// Sync makes names in these folders durable, whichever process put, moved or removed them.
	Sync(ctx context.Context, dirs ...string) error
	// Refresh makes changes that other nodes made in a folder before the call visible after the call. List does this too.
	Refresh(ctx context.Context, dir string) error
	// Free returns the bytes that can still be written.
	Free(ctx context.Context) (uint64, error)
}
