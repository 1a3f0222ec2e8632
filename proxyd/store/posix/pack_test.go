// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

func FuzzPack(f *testing.F) {
	var files []store.File
	for i := range 5 {
		files = append(files, store.File{Name: fmt.Sprintf("a/%064x", i*77), Data: bytes.Repeat([]byte{byte(i)}, i)})
	}
	head := packHeader(files)
	f.Add(head, []byte("01234567890123456789012345678901"))
	f.Add([]byte("SSP1\x00\x00\x00\x00"), []byte{0})
	f.Fuzz(func(t *testing.T, head, name []byte) {
		n, err := packCount(head)
		if err != nil || n == 0 {
			return
		}
		var id [packName]byte
		copy(id[:], name)
		e, err := findEntry(head[packHead:min(len(head), packHead+n*packEntry)], id, int64(len(head)))
		if err == nil && (int(e.offset)+int(e.length) > len(head) || e.name != id) {
			t.Fatalf("entry %+v of %d bytes", e, len(head))
		}
	})
}

func TestPackFindsAll(t *testing.T) {
	for _, n := range []int{2, 3, 100, maxPack} {
		var files []store.File
		for i := range n {
			files = append(files, store.File{Name: fmt.Sprintf("a/%064x", i*0x9e3779b9%0xfffff1), Data: bytes.Repeat([]byte{byte(i)}, i%100)})
		}
		pack := packHeader(files)
		for _, f := range files {
			pack = append(pack, f.Data...)
		}
		count, err := packCount(pack)
		if err != nil || count != n {
			t.Fatalf("packCount = %d, %v, want the number of files", count, err)
		}
		for _, f := range files {
			id, _ := packableName(f.Name)
			e, err := findEntry(pack[packHead:packHead+n*packEntry], id, int64(len(pack)))
			if err != nil || !bytes.Equal(pack[e.offset:e.offset+e.length], f.Data) {
				t.Fatalf("findEntry of %s has other bytes, or error %v", f.Name, err)
			}
		}
	}
	if packHeader([]store.File{{Name: "a/x"}, {Name: "a/y"}}) != nil {
		t.Error("names that are no hashes were packed")
	}
}
