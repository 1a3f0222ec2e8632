// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A file of its own for every chunk is slow to make: it costs an inode, a flush and several round trips. So the chunks
// of a Put share an inode, the pack, and each name in chunks/ is a hard link to it. The name is still the only record
// of a chunk: the name appears, moves and goes as if the chunk were a file, by link, rename and unlink, and the file
// system frees the pack with its last name. There is no index, and no count of references.
//
//	0        4    magic "SSP1"
//	4        4    n, little endian, 1 to maxPack
//	8        40n  entries, sorted by name: name[32], offset u32, length u32
//	8 + 40n       the files' contents
const (
	packMagic = "SSP1"
	packHead  = 8
	packEntry = 40
	maxPack   = 1024
	packName  = 32
)

// entry is the place of a file in a pack.
type entry struct {
	name           [packName]byte
	offset, length uint32
}

// packableName returns the name of a file that may be in a pack, because a hash names it.
func packableName(name string) (id [packName]byte, ok bool) {
	base := path.Base(name)
	if len(base) != hex.EncodedLen(packName) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(base))
	return id, err == nil
}

// packHeader returns the beginning of a pack that holds files in their order, or nil if
// they cannot be packed.
func packHeader(files []store.File) []byte {
	if len(files) < 2 || len(files) > maxPack {
		return nil
	}
	entries := make([]entry, len(files))
	offset := uint64(packHead + packEntry*len(files))
	for i, f := range files {
		id, ok := packableName(f.Name)
		if !ok || offset+uint64(len(f.Data)) > 1<<32-1 {
			return nil
		}
		entries[i] = entry{id, uint32(offset), uint32(len(f.Data))}
		offset += uint64(len(f.Data))
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.name[:], b.name[:]) })
	head := binary.LittleEndian.AppendUint32([]byte(packMagic), uint32(len(files)))
	for _, e := range entries {
		head = append(head, e.name[:]...)
		head = binary.LittleEndian.AppendUint32(head, e.offset)
		head = binary.LittleEndian.AppendUint32(head, e.length)
	}
	return head
}

// packCount returns the number of entries if head is the beginning of a pack, else 0.
func packCount(head []byte) (int, error) {
	if len(head) < packHead || string(head[:4]) != packMagic {
		return 0, nil
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n == 0 || n > maxPack {
		return 0, fmt.Errorf("%w: pack of %d", store.ErrForeign, n)
	}
	return int(n), nil
}

var errNotInPack = errors.New("the pack does not hold it")

// findEntry looks a name up among a pack's entries, of a file of size bytes.
func findEntry(entries []byte, id [packName]byte, size int64) (entry, error) {
	n := len(entries) / packEntry
	at := func(i int) []byte { return entries[i*packEntry : (i+1)*packEntry] }
	low, high := 0, n
	for low < high {
		mid := (low + high) / 2
		if bytes.Compare(at(mid)[:packName], id[:]) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == n || !bytes.Equal(at(low)[:packName], id[:]) {
		return entry{}, fmt.Errorf("%w: %w", store.ErrForeign, errNotInPack)
	}
	e := entry{id, binary.LittleEndian.Uint32(at(low)[packName:]), binary.LittleEndian.Uint32(at(low)[packName+4:])}
	if int64(e.offset)+int64(e.length) > size {
		return entry{}, fmt.Errorf("%w: beyond the end of the pack", store.ErrForeign)
	}
	return e, nil
}
