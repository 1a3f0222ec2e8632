// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// filesystem is the result of statfs and stat of a folder.
type filesystem struct {
	kind        string
	free, total uint64
	device      uint64 // tells file systems apart
	owner       uint32
	mode        os.FileMode
}

func statFilesystem(dir string) (filesystem, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return filesystem{}, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return filesystem{}, fmt.Errorf("%s: not a folder", dir)
	}
	var sf unix.Statfs_t
	if err := unix.Statfs(dir, &sf); err != nil {
		return filesystem{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := uint64(sf.Bsize)
	return filesystem{kind: kindOf(uint32(sf.Type)), free: sf.Bavail * block, total: sf.Blocks * block,
		device: st.Dev, owner: st.Uid, mode: os.FileMode(st.Mode & 0o7777)}, nil
}

// kindOf names a file system by its magic number.
func kindOf(magic uint32) string {
	names := map[uint32]string{
		0x6969: "nfs", 0x0bd00bd0: "lustre", 0x47504653: "gpfs", 0x19830326: "beegfs", 0x00c36400: "ceph", 0x65735546: "fuse",
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", 0x2fc12fc1: "zfs", 0x01021997: "9p",
	}
	if n, ok := names[magic]; ok {
		return n
	}
	return fmt.Sprintf("file system %#x", magic)
}

// tryFolder does the store's operations in a folder: it makes files that only a single process can
// make, links, renames and flushes. tryFolder returns by how much the clock of the file system is
// ahead of this node's.
func tryFolder(dir string) (ahead time.Duration, err error) {
	tmp, err := os.MkdirTemp(dir, ".doctor-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	name := func(s string) string { return filepath.Join(tmp, s) }
	f, err := os.OpenFile(name("a"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.WriteString("doctor\n"); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	now := time.Now()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if again, err := os.OpenFile(name("a"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		again.Close()
		return 0, fmt.Errorf("%s: made twice with O_EXCL", name("a"))
	} else if !errors.Is(err, os.ErrExist) {
		return 0, err
	}
	if err := os.Link(name("a"), name("b")); err != nil {
		return 0, err
	}
	if err := os.Rename(name("b"), name("c")); err != nil {
		return 0, err
	}
	d, err := os.Open(tmp)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return 0, err
	}
	got, err := os.ReadFile(name("c"))
	if err != nil {
		return 0, err
	}
	if string(got) != "doctor\n" {
		return 0, fmt.Errorf("%s: read back %.20q", name("c"), got)
	}
	return info.ModTime().Sub(now), nil
}

// writeRate returns the rate, in bytes per second, at which n bytes are written to a folder and
// flushed.
func writeRate(dir string, n int64) (rate float64, err error) {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	began := time.Now()
	if _, err := io.CopyBuffer(onlyWriter{f}, io.LimitReader(noiseReader{}, n), make([]byte, 1<<20)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// onlyWriter hides ReadFrom, which would not use the buffer.
type onlyWriter struct{ io.Writer }

// noiseReader is a reader of bytes that are not all zero and cost little to make.
type noiseReader struct{}

func (noiseReader) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 512 {
		p[i] = byte(i>>9) | 1
	}
	return len(p), nil
}
