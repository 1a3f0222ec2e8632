// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Of the kernel's <linux/fuse.h>.
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseSetattr = 4
	fuseOpen    = 14
	fuseWrite   = 16
	fuseRelease = 18
	fuseFlush   = 25
	fuseInit    = 26

	fuseWritebackCache = 1 << 16
)

// hangingFile is a file of a file system that never answers when something is to be
// written, or flushed for root: who closes it waits. The channel is told of each who does.
// It ends with the test.
func hangingFile(t *testing.T) (path string, hangs <-chan struct{}) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hangs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("SKIP: needs /dev/fuse: ", err)
	}
	if err := unix.Mount("hangs", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev)); err != nil {
		unix.Close(dev)
		t.Skip("SKIP: cannot mount FUSE: ", err)
	}
	told := make(chan struct{}, 100)
	over := make(chan struct{})
	go func() {
		defer close(over)
		serveFuse(dev, told)
	}()
	t.Cleanup(func() {
		// A process that waits gets an error.
		_ = unix.Unmount(dir, unix.MNT_FORCE)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		<-over
		unix.Close(dev)
	})
	return filepath.Join(dir, "file"), told
}

func serveFuse(dev int, told chan<- struct{}) {
	attr := func(ino uint64, mode uint32) []byte {
		b := make([]byte, 88)
		binary.LittleEndian.PutUint64(b, ino)
		binary.LittleEndian.PutUint32(b[60:], mode)
		binary.LittleEndian.PutUint32(b[64:], 1)
		binary.LittleEndian.PutUint32(b[80:], 4096)
		return b
	}
	answers := func(ino uint64, mode uint32) []byte { return append(make([]byte, 16), attr(ino, mode)...) }
	request := make([]byte, 1<<20)
	for {
		n, err := unix.Read(dev, request)
		if err == unix.EINTR || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return // unmounted
		}
		var out []byte
		errno := int32(0)
		node := binary.LittleEndian.Uint64(request[16:])
		switch binary.LittleEndian.Uint32(request[4:]) {
		case fuseInit:
			out = make([]byte, 64)
			binary.LittleEndian.PutUint32(out, 7)
			binary.LittleEndian.PutUint32(out[4:], 31)
			binary.LittleEndian.PutUint32(out[12:], fuseWritebackCache)
			binary.LittleEndian.PutUint32(out[20:], 128<<10)
			binary.LittleEndian.PutUint32(out[24:], 1)
		case fuseLookup:
			out = make([]byte, 40, 128)
			binary.LittleEndian.PutUint64(out, 2)
			binary.LittleEndian.PutUint64(out[16:], 1000)
			binary.LittleEndian.PutUint64(out[24:], 1000)
			out = append(out, attr(2, unix.S_IFREG|0o666)...)
		case fuseGetattr, fuseSetattr:
			out = answers(1, unix.S_IFDIR|0o755)
			if node == 2 {
				out = answers(2, unix.S_IFREG|0o666)
			}
			binary.LittleEndian.PutUint64(out, 1000)
		case fuseOpen:
			out = make([]byte, 16)
		case fuseFlush, fuseWrite:
			uid := binary.LittleEndian.Uint32(request[24:])
			if uid == 0 || binary.LittleEndian.Uint32(request[4:]) == fuseWrite {
				told <- struct{}{}
				continue
			}
		case fuseForget:
			continue
		case fuseRelease:
		default:
			errno = -int32(unix.ENOSYS)
		}
		b := make([]byte, 16, 16+len(out))
		binary.LittleEndian.PutUint32(b, uint32(16+len(out)))
		binary.LittleEndian.PutUint32(b[4:], uint32(errno))
		copy(b[8:], request[8:16])
		_, _ = unix.Write(dev, append(b, out...))
	}
}
