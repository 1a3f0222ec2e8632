// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest defines the contract of a store.Backend (Run), and has helpers for tests of a store: a Backend in
// memory, faults, and made-up memory images.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Run checks a Backend against the contract of store.Backend; open returns an empty Backend.
func Run(t *testing.T, open func(t *testing.T) store.Backend) {
	tests := []struct {
		name string
		test func(*testing.T, store.Backend)
	}{
		{"put makes and replaces", testPut},
		{"many at once", testPutMany},
		{"get is bounded", testGet},
		{"move never replaces", testMove},
		{"remove", testRemove},
		{"a removed folder takes nothing", testFence},
		{"mkdir is exclusive", testMkdir},
		{"list", testList},
		{"concurrent puts are whole", testConcurrent},
		{"ctx", testContext},
		{"free and sync", testFree},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			for _, dir := range []string{"tmp", "a", "b"} {
				if err := b.Mkdir(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
			}
			c.test(t, b)
		})
	}
}

func putObject(t *testing.T, b store.Backend, name, data string) {
	t.Helper()
	if err := b.Put(t.Context(), store.File{Name: name, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func wantObject(t *testing.T, b store.Backend, name, data string) {
	t.Helper()
	got, err := b.Get(t.Context(), name, 1<<20, nil)
	if err != nil || string(got) != data {
		t.Fatalf("get %s: %q, %v; want %q", name, got, err, data)
	}
}

func wantErr(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func testPut(t *testing.T, b store.Backend) {
	putObject(t, b, "a/x", "one")
	wantObject(t, b, "a/x", "one")
	putObject(t, b, "a/x", "")
	wantObject(t, b, "a/x", "")
	putObject(t, b, "top", "two")
	wantObject(t, b, "top", "two")
	wantErr(t, b.Put(t.Context(), store.File{Name: "none/x", Data: nil}), fs.ErrNotExist)
	if names := listNames(t, b, "tmp"); len(names) != 0 {
		t.Fatalf("tmp holds %q", names)
	}
}

// testPutMany puts files that a backend may keep together, as chunks are.
func testPutMany(t *testing.T, b store.Backend) {
	name := func(i int) string { return fmt.Sprintf("%c/%064x", "ab"[i%2], i*i*0x9e3779b97f4a7) }
	data := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), i*3) }
	for round := range 2 { // the second replaces half of them, and adds some
		var files []store.File
		for i := 150 * round; i < 150*round+300; i++ {
			files = append(files, store.File{Name: name(i), Data: []byte(data(i))})
		}
		if err := b.Put(t.Context(), files...); err != nil {
			t.Fatal(err)
		}
	}
	check := func(there func(i int) bool) {
		t.Helper()
		for i := range 450 {
			if there(i) {
				wantObject(t, b, name(i), data(i))
			}
		}
		if names := listNames(t, b, "tmp"); len(names) != 0 {
			t.Fatalf("tmp holds %q", names)
		}
	}
	check(func(int) bool { return true })
	kept := func(i int) bool { return i%7 == 0 }
	for i := range 450 {
		if !kept(i) {
			if err := b.Remove(t.Context(), name(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantErr(t, b.Move(t.Context(), name(0), name(7)), fs.ErrExist)
	check(kept)
	if c, ok := b.(store.Compacter); ok {
		if err := c.Compact(t.Context(), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		check(kept)
	}
}

func testGet(t *testing.T, b store.Backend) {
	putObject(t, b, "a/x", "12345")
	_, err := b.Get(t.Context(), "a/x", 4, nil)
	wantErr(t, err, store.ErrForeign)
	_, err = b.Get(t.Context(), "a/y", 4, nil)
	wantErr(t, err, fs.ErrNotExist)
	_, err = b.Get(t.Context(), "a", 4, nil)
	wantErr(t, err, store.ErrForeign)
	buf := make([]byte, 0, 16)
	got, err := b.Get(t.Context(), "a/x", 5, buf)
	if err != nil || &got[0] != &buf[:1][0] {
		t.Fatalf("a large enough buffer was not used: %v", err)
	}
	info, err := b.Stat(t.Context(), "a/x")
	if err != nil || info.Size != 5 || info.Dir || info.ModTime.IsZero() {
		t.Fatalf("stat: %+v, %v", info, err)
	}
	if info, err := b.Stat(t.Context(), "a"); err != nil || !info.Dir {
		t.Fatalf("stat of a folder: %+v, %v", info, err)
	}
	_, err = b.Stat(t.Context(), "a/y")
	wantErr(t, err, fs.ErrNotExist)
}

func testMove(t *testing.T, b store.Backend) {
	putObject(t, b, "a/x", "x")
	putObject(t, b, "b/y", "y")
	wantErr(t, b.Move(t.Context(), "a/x", "b/y"), fs.ErrExist)
	wantErr(t, b.Move(t.Context(), "a/none", "b/z"), fs.ErrNotExist)
	wantErr(t, b.Move(t.Context(), "a/x", "none/z"), fs.ErrNotExist)
	wantObject(t, b, "a/x", "x")
	wantObject(t, b, "b/y", "y")
	if err := b.Move(t.Context(), "a/x", "b/x"); err != nil {
		t.Fatal(err)
	}
	wantObject(t, b, "b/x", "x")
	_, err := b.Get(t.Context(), "a/x", 9, nil)
	wantErr(t, err, fs.ErrNotExist)
}

func testRemove(t *testing.T, b store.Backend) {
	putObject(t, b, "a/x", "x")
	wantErr(t, b.Remove(t.Context(), "a"), store.ErrNotEmpty)
	wantErr(t, b.Remove(t.Context(), "a/y"), fs.ErrNotExist)
	for _, name := range []string{"a/x", "a"} {
		if err := b.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, b.Remove(t.Context(), "a"), fs.ErrNotExist)
}

// testFence lets moves and puts into a folder, and moves out of the folder, race with its removal: the removal saw each
// call that succeeded, and after the removal no call succeeds.
func testFence(t *testing.T, b store.Backend) {
	ctx := t.Context()
	for i := range 50 {
		dir := fmt.Sprintf("b/%d", i)
		if err := b.Mkdir(ctx, dir); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("a/%d", i)
		putObject(t, b, name, "x")
		var wg sync.WaitGroup
		var moved error
		wg.Go(func() { moved = b.Move(ctx, name, dir+"/x") })
		removed := b.Remove(ctx, dir)
		wg.Wait()
		switch {
		case moved == nil:
			wantErr(t, removed, store.ErrNotEmpty)
		case removed != nil:
			t.Fatalf("move: %v, remove: %v", moved, removed)
		default:
			wantErr(t, moved, fs.ErrNotExist)
			wantErr(t, b.Put(ctx, store.File{Name: dir + "/y", Data: nil}), fs.ErrNotExist)
			wantObject(t, b, name, "x")
		}
	}
}

func testMkdir(t *testing.T, b store.Backend) {
	wantErr(t, b.Mkdir(t.Context(), "a"), fs.ErrExist)
	wantErr(t, b.Mkdir(t.Context(), "none/a"), fs.ErrNotExist)
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() { results[i] = b.Mkdir(t.Context(), "a/one") })
	}
	wg.Wait()
	if n := slices.IndexFunc(results, func(err error) bool { return err == nil }); n < 0 {
		t.Fatal("nobody made the folder")
	}
	made := 0
	for _, err := range results {
		if err == nil {
			made++
		} else {
			wantErr(t, err, fs.ErrExist)
		}
	}
	if made != 1 {
		t.Fatalf("%d made the folder", made)
	}
}

func listNames(t *testing.T, b store.Backend, dir string) []string {
	t.Helper()
	var names []string
	if err := b.List(t.Context(), dir, func(n string) error { names = append(names, n); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func testList(t *testing.T, b store.Backend) {
	putObject(t, b, "a/x", "1")
	putObject(t, b, "a/y", "2")
	if err := b.Mkdir(t.Context(), "a/z"); err != nil {
		t.Fatal(err)
	}
	if got := listNames(t, b, "a"); !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Fatalf("list: %q", got)
	}
	stop := errors.New("stop")
	wantErr(t, b.List(t.Context(), "a", func(string) error { return stop }), stop)
	wantErr(t, b.List(t.Context(), "none", func(string) error { return nil }), fs.ErrNotExist)
}

func testConcurrent(t *testing.T, b store.Backend) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			data := bytes.Repeat([]byte{byte('a' + i)}, 100_000)
			for range 10 {
				if err := b.Put(t.Context(), store.File{Name: "a/x", Data: data}); err != nil {
					t.Error(err)
				}
				got, err := b.Get(t.Context(), "a/x", 1<<20, nil)
				if err != nil || len(got) != len(data) || bytes.Count(got, got[:1]) != len(got) {
					t.Errorf("torn: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func testContext(t *testing.T, b store.Backend) {
	putObject(t, b, "a/x", "x")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, get := b.Get(ctx, "a/x", 9, nil)
	_, stat := b.Stat(ctx, "a/x")
	for i, err := range []error{
		get, stat, b.Put(ctx, store.File{Name: "a/y", Data: nil}), b.Move(ctx, "a/x", "a/y"), b.Remove(ctx, "a/x"),
		b.Mkdir(ctx, "a/z"), b.Sync(ctx, "a"), b.List(ctx, "a", func(string) error { return nil }),
	} {
		if !errors.Is(err, why) {
			t.Errorf("call %d: %v, want the context's cause", i, err)
		}
	}
	wantObject(t, b, "a/x", "x")
}

func testFree(t *testing.T, b store.Backend) {
	if n, err := b.Free(t.Context()); err != nil || n == 0 {
		t.Fatalf("free: %d, %v", n, err)
	}
	if err := b.Sync(t.Context(), ".", "a", "b"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.Sync(t.Context(), "none"), fs.ErrNotExist)
	if err := b.Refresh(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.Refresh(t.Context(), "none"), fs.ErrNotExist)
}
