// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package filestate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// checkpoint is that of these tests.
var checkpoint = store.ID{JobID: store.PlainJob("mini", 7), Number: 1}

func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openStore returns a store in a new folder, and the folder.
func openStore(t *testing.T) (*store.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	requireNoError(t, os.Mkdir(dir, 0o700))
	be, err := posix.Open(dir)
	requireNoError(t, err)
	t.Cleanup(func() { be.Close() })
	key, err := store.NewKey(bytes.Repeat([]byte("key "), 8))
	requireNoError(t, err)
	s, err := store.Open(t.Context(), be, key, store.Options{Lanes: 1, Workers: 1})
	requireNoError(t, err)
	t.Cleanup(s.Close)
	return s, dir
}

// manyFiles returns a state of files with long names and links to long names of characters that JSON escapes.
func manyFiles(n int) *files.State {
	s := &files.State{Serial: 3, Mark: 99, Boot: "boot", Files: files.FileMap{}, Parents: files.FileMap{}, Streams: map[string]int64{}, Lost: true}
	for i := range n {
		name := files.Name(fmt.Sprintf("/home/alice/%s/%06d", strings.Repeat("x", 250), i))
		s.Files[name] = &files.File{Type: files.Symlink, Target: files.Name(strings.Repeat("\x01", 10)), Ino: uint64(i)}
	}
	s.Files["/home/alice/\xff"] = &files.File{Type: files.Missing}
	return s
}

// TestManifestStaysSmall: however much a job did to files, the manifest, which every list of checkpoints reads, stays small, and
// the state is read back whole.
func TestManifestStaysSmall(t *testing.T) {
	s, dir := openStore(t)
	w, err := s.Create(t.Context(), store.Upload{ID: checkpoint, Node: "n1"})
	requireNoError(t, err)
	state := manyFiles(20_000)
	m := records.CapsuleMeta{Index: 3, Node: "n1"}
	m.FilesSummary, err = Save(upload.StoreShare{Writer: w, Node: "n1"}, "3/", state)
	requireNoError(t, err)
	meta := records.Meta{Capsules: []records.CapsuleMeta{m}}
	b, err := meta.Encode()
	requireNoError(t, err)
	_, err = w.Commit(t.Context(), b)
	requireNoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "manifests", "mini", "7", "1"))
	requireNoError(t, err)
	if info.Size() > 64<<10 {
		t.Errorf("the manifest has %d bytes", info.Size())
	}

	r, err := s.Open(t.Context(), checkpoint)
	requireNoError(t, err)
	defer r.Close()
	read, err := records.DecodeMeta(r.Manifest().Meta)
	requireNoError(t, err)
	if got := read.Capsule(3).FilesSummary; *got != (records.FilesSummary{Count: 20_001, Lost: true, Mark: 99}) {
		t.Errorf("the manifest says %+v", got)
	}
	got, err := Load(r, read.Capsule(3))
	requireNoError(t, err)
	if !reflect.DeepEqual(got, state) {
		t.Errorf("%d files are read back, of %d, or others", len(got.Files), len(state.Files))
	}
	if got, err := Load(r, &records.CapsuleMeta{Index: 4, Node: "n1"}); got != nil || err != nil {
		t.Errorf("a capsule without a state: %v, %v", got, err)
	}
	if _, err := Load(r, &records.CapsuleMeta{Index: 4, Node: "n1", FilesSummary: &records.FilesSummary{}}); err == nil {
		t.Error("a stream that is not there is read")
	}
}

// TestLoadOlderRelease: checkpoints of older releases have the state in the manifest.
func TestLoadOlderRelease(t *testing.T) {
	m, err := records.DecodeMeta([]byte(`{"version":1,"capsules":[{"index":3,"node":"n1","files":{"serial":2,"mark":7,"boot":"b","time":"2026-08-01T12:00:00Z","lost":false,` +
		`"files":{"/home/alice/f":{"type":"file","size":3,"data":[{"at":0,"size":3,"stream":"files-2","off":0,"hash":"` + strings.Repeat("ab", 32) + `"}]}},` +
		`"parents":{},"streams":{"files-2":3}}}]}`))
	requireNoError(t, err)
	s, err := Load(nil, m.Capsule(3))
	requireNoError(t, err)
	if s == nil || s.Serial != 2 || s.Mark != 7 || s.Streams["files-2"] != 3 || s.Files["/home/alice/f"].Data[0].Stream != "files-2" {
		t.Errorf("Load of a checkpoint of an older release = %+v", s)
	}
}

// TestDecodeStateBounded: a state that is longer than any that is written is refused, and not taken into memory.
func TestDecodeStateBounded(t *testing.T) {
	text := `{"boot":"` + strings.Repeat("b", 1000) + `"}`
	if _, err := decodeState(strings.NewReader(text), int64(len(text))); err != nil {
		t.Error(err)
	}
	for _, most := range []int64{int64(len(text)) - 1, 100} {
		if _, err := decodeState(strings.NewReader(text), most); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("more than %d bytes", most)) {
			t.Errorf("decodeState with a limit of %d bytes: %v", most, err)
		}
	}
	if _, err := decodeState(strings.NewReader(text[:100]), 1000); err == nil {
		t.Error("decodeState of a part of a state: no error")
	}
}

// TestFixedPaths: the files of a state that must keep their size are those that a program maps, or has open in another
// way than to be read only or appended to; of an image that does not say how, all.
func TestFixedPaths(t *testing.T) {
	image := func(p criu.Places, paths ...string) *criu.Image {
		p.Exe, p.Cwd, p.Root = -1, -1, -1
		i := &criu.Image{Processes: []criu.Process{{ProcessFacts: criu.ProcessFacts{Places: &p}}, {}}}
		for _, path := range paths {
			i.Opened = append(i.Opened, criu.OpenedFile{Path: path})
		}
		return i
	}
	state := &files.State{Files: files.FileMap{"/a": {}, "/b": {}, "/c": {}, "/d": {}, "/e": {}}}
	m := &records.CapsuleMeta{Programs: []records.ProgramMeta{
		{Name: "batch", Image: image(criu.Places{Descriptors: map[int]int{0: 0, 3: 1, 4: 2, 5: 3}, MayGrow: []int{4, 5}}, "/not/recorded", "/a", "/b", "/c")},
		{Name: "s0-0.0"},
		{Name: "s0-0.1", Image: image(criu.Places{Descriptors: map[int]int{3: 0}, Mapped: []int{1}, MayGrow: []int{3}}, "/d", "/e")},
		{Name: "s0-0.2", Image: image(criu.Places{Descriptors: map[int]int{3: 0}}, "/c")},
	}}
	if got := FixedPaths(m, state); !slices.Equal(got, []string{"/a", "/c", "/e"}) {
		t.Errorf("FixedPaths = %q, want /a, /c and /e", got)
	}
}
