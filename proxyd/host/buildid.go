// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNoBuildID says that a file is no ELF file, or was linked without a build id.
var ErrNoBuildID = errors.New("no build id")

// buildIDIn returns the GNU build id of a program or library, in hex. The path is absolute within the tree root: the path
// and links on it lead to files of the tree. Any user may have made the file, so its content is not trusted, and a file
// that is not regular has no id.
func buildIDIn(root, path string) (string, error) {
	id, err := buildID(root, path)
	if err != nil {
		return "", fmt.Errorf("build id of %s: %w", path, err)
	}
	return id, nil
}

func buildID(root, path string) (string, error) {
	tree, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(tree)
	// Opening a fifo would block, and opening a device may have any effect.
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := unix.Openat2(tree, path, &how)
	// A ".." on the way cannot be followed while anybody on the node renames or mounts.
	for tries := 0; errors.Is(err, unix.EAGAIN) && tries < maxRaces; tries++ {
		fd, err = unix.Openat2(tree, path, &how)
	}
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", ErrNoBuildID
	}
	key, ok := fileOf(info)
	if !ok {
		return readBuildID(f)
	}
	if id, err := remembered.buildIDOf(key); id != "" || err != nil {
		return id, err
	}
	id, err := readBuildID(f)
	if err == nil || errors.Is(err, ErrNoBuildID) {
		remembered.rememberID(key, id)
	}
	return id, err
}

// file identifies a file that was not changed since.
type file struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func fileOf(info os.FileInfo) (file, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return file{}, false
	}
	return file{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, true
}

// buildIDs are the ids of files that were read: the programs of a node map the same files, and a
// job stands still while ids are looked up.
type buildIDs struct {
	mu sync.Mutex
	of map[file]string // "": the file has no build id
}

var remembered buildIDs

// maxRemembered limits the ids that are kept: several times the number of files that a node's
// programs map.
const maxRemembered = 1 << 14

func (b *buildIDs) buildIDOf(f file) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.of[f]
	if ok && id == "" {
		return "", ErrNoBuildID
	}
	return id, nil
}

func (b *buildIDs) rememberID(f file, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil || len(b.of) >= maxRemembered {
		b.of = map[file]string{}
	}
	b.of[f] = id
}

// maxRaces limits the retries against a program that renames folders without end.
const maxRaces = 10000

const (
	noteBuildID = 3 // NT_GNU_BUILD_ID
	maxNotes    = 64 << 10
	maxProgs    = 1024
)

// readBuildID reads program headers only. It does not use debug/elf, which reads the sections
// first: they are often stripped, and a hostile file can have millions. Only 64-bit little-endian
// files have an id here: programs of all CPUs that we support are such files.
func readBuildID(r io.ReaderAt) (string, error) {
	var head [64]byte
	if _, err := r.ReadAt(head[:], 0); err != nil || string(head[:6]) != "\x7fELF\x02\x01" {
		return "", ErrNoBuildID
	}
	offset := binary.LittleEndian.Uint64(head[32:])
	size := binary.LittleEndian.Uint16(head[54:])
	number := binary.LittleEndian.Uint16(head[56:])
	if size != 56 || number > maxProgs || offset > math.MaxInt64/2 {
		return "", ErrNoBuildID
	}
	progs := make([]byte, int(size)*int(number))
	if _, err := r.ReadAt(progs, int64(offset)); err != nil {
		return "", ErrNoBuildID
	}
	for ; len(progs) > 0; progs = progs[size:] {
		at, length := binary.LittleEndian.Uint64(progs[8:]), binary.LittleEndian.Uint64(progs[32:])
		if elf.ProgType(binary.LittleEndian.Uint32(progs)) != elf.PT_NOTE || at > math.MaxInt64/2 {
			continue
		}
		notes := make([]byte, min(length, maxNotes))
		n, err := r.ReadAt(notes, int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if id := findBuildID(notes[:n], binary.LittleEndian.Uint64(progs[48:])); id != nil {
			return hex.EncodeToString(id), nil
		}
	}
	return "", ErrNoBuildID
}

// findBuildID walks notes: name size, description size, type, name and description, each of
// the last two padded.
func findBuildID(notes []byte, align uint64) []byte {
	if align != 8 {
		align = 4
	}
	pad := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(notes) >= 12 {
		nameSize := uint64(binary.LittleEndian.Uint32(notes))
		descSize := uint64(binary.LittleEndian.Uint32(notes[4:]))
		kind := binary.LittleEndian.Uint32(notes[8:])
		begin := pad(12 + nameSize)
		end := begin + descSize
		if end > uint64(len(notes)) {
			return nil
		}
		if kind == noteBuildID && nameSize == 4 && string(notes[12:16]) == "GNU\x00" && descSize > 0 && descSize <= 64 {
			return notes[begin:end]
		}
		notes = notes[min(pad(end), uint64(len(notes))):]
	}
	return nil
}
