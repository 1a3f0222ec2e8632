// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// TestFind: where in a process's memory its host mappings are, according to /proc.
func TestFind(t *testing.T) {
	const line = "7f0123400000-7f012b410000 rw-s 00000000 00:01 77   /memfd:singularity-ring (deleted)\n"
	const pinned = "7f0200000000-7f0200001000 rw-s 00000000 00:01 78 /memfd:singularity-pinned (deleted)\n" +
		"7f0200001000-7f0200003000 ---s 00001000 00:01 78 /memfd:singularity-pinned (deleted)\n"
	anywhere := HostMapping{Kind: RingMemory}
	there := HostMapping{Kind: RingMemory, Address: 0x7f0123400000}
	piece := HostMapping{PinnedMemory, 0x7f0200000000, 0x3000}
	for _, tc := range []struct {
		name, maps string
		what       HostMapping
		inode      uint64
		want       string
	}{
		{"it", line, anywhere, 0, "7f0123400000-7f012b410000"},
		{"that one", line, anywhere, 77, "7f0123400000-7f012b410000"},
		{"there", line, there, 0, "7f0123400000-7f012b410000"},
		{"another inode there", line, there, 78, "7f0123400000-7f012b410000"},
		{"another one", line, anywhere, 78, ""},
		{"none", "", anywhere, 0, ""},
		{"a part", strings.Replace(line, "7f012b410000", "7f0123500000", 1), anywhere, 0, ""},
		{"not its beginning", strings.Replace(line, "00000000", "00001000", 1), anywhere, 0, ""},
		{"not shared", strings.Replace(line, "rw-s", "rw-p", 1), anywhere, 0, ""},
		{"a file", strings.Replace(line, "/memfd:singularity-ring (deleted)", "/tmp/x", 1), anywhere, 0, ""},
		{"nonsense", "a b c d e /memfd:singularity-ring\n", anywhere, 0, ""},
		{"leading zeros", strings.ReplaceAll(line, "7f01", "0001"), anywhere, 0, "123400000-12b410000"},
		{"pinned memory with a guard", line + pinned, piece, 0, "7f0200000000-7f0200001000"},
		{"pinned memory that is gone", line, piece, 0, ""},
		{"another address", line + pinned, HostMapping{PinnedMemory, 0x7f0200001000, 0x2000}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.what.findMapping(parseMappings(tc.maps), tc.inode)
			if got.span != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("findMapping = %+v, %v", got, err)
			}
		})
	}
}

// TestFetch: root opens the shared memory of a process for that process, and no other file that the process has mapped.
func TestFetch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: the kernel lets nobody else open what a process has mapped")
	}
	const n = 4096
	plain, err := os.Create(filepath.Join(t.TempDir(), "memfd:plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	others := sealedFile(t, n, unix.F_SEAL_SHRINK)
	if err := errors.Join(plain.Truncate(n), others.Chown(12345, 12345)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		file *os.File
		ok   bool
	}{
		{"its own", sealedFile(t, n, unix.F_SEAL_SHRINK), true},
		{"another user's", others, false},
		{"a file", plain, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem, err := unix.Mmap(int(tc.file.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Munmap(mem)
			at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
			f, err := openShared(os.Getpid(), fmt.Sprintf("%x-%x", at, at+n))
			if (err == nil) != tc.ok {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			defer f.Close()
			var was, is unix.Stat_t
			if err := errors.Join(unix.Fstat(int(tc.file.Fd()), &was), unix.Fstat(int(f.Fd()), &is)); err != nil || was.Ino != is.Ino {
				t.Errorf("inodes of the file and the fetched file: %d, %d, %v", was.Ino, is.Ino, err)
			}
		})
	}
	lie := SavedProcess{HostMappings: make([]HostMapping, handles.Max+1)}
	if _, err := OpenHostMappings(os.Getpid(), lie); !errors.Is(err, ErrNonsense) {
		t.Error(err)
	}
}

func sealedFile(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return f
}
