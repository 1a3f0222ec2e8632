// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Get reads a file that this user owns, whole or from its pack.
func (b *Backend) Get(ctx context.Context, name string, limit int, buf []byte) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	fd, err := b.openFile(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, pathError("stat", name, err)
	}
	if why := b.fileFault(&st); why != "" {
		return nil, pathError("open", name, fmt.Errorf("%w: %s", store.ErrForeign, why))
	}
	where, err := locateContent(fd, name, st.Size)
	if err == nil && where.length > int64(limit) {
		err = fmt.Errorf("%w: %d bytes, at most %d expected", store.ErrForeign, where.length, limit)
	}
	if err != nil {
		return nil, pathError("read", name, err)
	}
	data, err := readAt(fd, where, buf)
	return data, pathError("read", name, err)
}

// fileFault says why a file cannot be one that Put made, "" if it can.
func (b *Backend) fileFault(st *unix.Stat_t) string {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "not a regular file"
	case st.Uid != b.uid:
		return fmt.Sprintf("owned by uid %d", st.Uid)
	case st.Mode&0o7777 != 0o600:
		return fmt.Sprintf("mode %04o, want 0600", st.Mode&0o7777)
	}
	return ""
}

// extent is a part of an inode.
type extent struct{ offset, length int64 }

// heads are buffers for the beginning of a pack: two reads find a chunk.
var heads = sync.Pool{New: func() any { return new([packHead + 512*packEntry]byte) }}

// locateContent returns where in an open file of size bytes the content of name is.
func locateContent(fd int, name string, size int64) (extent, error) {
	whole := extent{0, size}
	id, ok := packableName(name)
	if !ok {
		return whole, nil
	}
	pooled := heads.Get().(*[packHead + 512*packEntry]byte)
	defer heads.Put(pooled)
	head, err := readAt(fd, extent{0, min(size, int64(len(pooled)))}, pooled[:0])
	if err != nil {
		return whole, err
	}
	n, err := packCount(head)
	if n == 0 || err != nil {
		return whole, err
	}
	if end := packHead + n*packEntry; len(head) < end {
		if head, err = readAt(fd, extent{0, min(size, int64(end))}, nil); err != nil {
			return whole, err
		}
	}
	e, err := findEntry(head[packHead:min(len(head), packHead+n*packEntry)], id, size)
	return extent{int64(e.offset), int64(e.length)}, err
}

// readAt reads a part of a file. The length is known before: files in a store do not change.
func readAt(fd int, where extent, buf []byte) ([]byte, error) {
	n := int(where.length)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	for at := 0; at < n; {
		m, err := unix.Pread(fd, buf[at:], where.offset+int64(at))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return buf[:at], nil // the file is shorter: the check of its content will fail
		}
		at += m
	}
	return buf, nil
}
