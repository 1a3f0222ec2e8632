// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestBitFlips flips bits in every kind of file. After each flip, the bytes that are read are right, or the error has a
// type and names its object.
func TestBitFlips(t *testing.T) {
	t.Run("mem", func(t *testing.T) {
		be := storetest.NewMem()
		flipBits(t, be, func() map[string][]byte { return be.Files("") }, be.Overwrite)
	})
	t.Run("posix", func(t *testing.T) {
		be := newFolder(t)
		files := func() map[string][]byte {
			m := make(map[string][]byte)
			failOn(t, filepath.WalkDir(be.Path(), func(p string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					rel, _ := filepath.Rel(be.Path(), p)
					m[rel], err = os.ReadFile(p)
				}
				return err
			}))
			return m
		}
		flipBits(t, be, files, func(name string, data []byte) {
			failOn(t, os.WriteFile(filepath.Join(be.Path(), name), data, 0o600))
		})
	})
}

func flipBits(t *testing.T, be store.Backend, files func() map[string][]byte, write func(string, []byte)) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	s := openStore(t, be, store.Options{})
	data := storetest.NewImage(1, 250).Bytes()
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), data))
	caught := 0
	for name, whole := range files() {
		if name == "format" || !strings.Contains(name, "/") {
			continue
		}
		rounds := 3
		if strings.HasPrefix(name, "manifests/") {
			rounds = 200
		}
		for range rounds {
			bad := bytes.Clone(whole)
			switch at := r.IntN(len(bad)); r.IntN(5) {
			case 0:
				bad = bad[:at]
			case 1:
				bad = append(bad, 'x')
			default:
				bad[at] ^= 1 << r.IntN(8)
			}
			write(name, bad)
			got, err := readBack(t.Context(), s, checkpointID(1, 1), 0)
			switch {
			case err == nil && !bytes.Equal(got, data):
				t.Fatalf("%s: wrong data was returned", name)
			case err != nil && !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrRefused):
				t.Fatalf("%s: untyped error %v", name, err)
			case err != nil && !bytes.HasPrefix(data, got):
				t.Fatalf("%s: wrong data before %v", name, err)
			case err != nil && !strings.Contains(err.Error(), "mini/1/1"):
				t.Fatalf("%s: %v names no checkpoint", name, err)
			case err != nil:
				caught++
			}
		}
		write(name, whole)
	}
	if caught < 100 {
		t.Errorf("only %d flips were noticed", caught)
	}
	if _, err := readBack(t.Context(), s, checkpointID(1, 1), 0); err != nil {
		t.Errorf("after repair: %v", err)
	}
}

// TestVerifyFindsDamage: Verify finds damage, and goes on.
func TestVerifyFindsDamage(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), storetest.NewImage(1, 800).Bytes()))
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), storetest.NewImage(2, 800).Bytes()))
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 3), []byte("short")))
	be.Overwrite("manifests/mini/1/3", []byte("nonsense"))
	var victim string
	for name, data := range be.Files("chunks/") {
		victim = name[strings.LastIndexByte(name, '/')+1:]
		data[len(data)/2] ^= 4
		break
	}
	report, err := s.Verify(t.Context(), nil, func(int64, int64) {})
	failOn(t, err)
	if len(report.Problems) != 2 || report.Checkpoints != 3 {
		t.Fatalf("report of Verify = %+v, want 2 problems in 3 checkpoints", report)
	}
	for _, want := range []string{"manifest mini/1/3: not a manifest", "chunk " + victim} {
		found := false
		for _, p := range report.Problems {
			found = found || strings.Contains(p.Error(), want) && errors.Is(p, store.ErrDamaged)
		}
		if !found {
			t.Errorf("no problem says %q: %v", want, report.Problems)
		}
	}
	r := mustReturn(s.Verify(t.Context(), []store.ID{checkpointID(1, 3)}, nil))
	if r.Checkpoints != 1 || r.Chunks != 0 || len(r.Problems) != 1 || r.Problems[0].Error() != "manifest mini/1/3: not a manifest" {
		t.Errorf("Verify of the damaged checkpoint alone returned %+v", r)
	}
}

// TestVerifyWhileOthersDelete: a checkpoint that a running job deletes meanwhile is not reported as damage.
func TestVerifyWhileOthersDelete(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	for n := range 3 {
		failOn(t, dumpRanks(t.Context(), s, checkpointID(1, uint32(n+1)), storetest.NewImage(uint64(n), 100).Bytes()))
	}
	remove := sync.OnceFunc(func() { failOn(t, s.Delete(t.Context(), checkpointID(1, 2))) })
	r := mustReturn(s.Verify(t.Context(), []store.ID{checkpointID(1, 1), checkpointID(1, 2), checkpointID(1, 3), checkpointID(1, 9)}, func(int64, int64) { remove() }))
	if r.Checkpoints != 2 || len(r.Problems) != 0 {
		t.Errorf("report of Verify = %+v, want 2 checkpoints without problems", r)
	}
}

// TestTamper makes changes that someone with write access to a part of the folder might try.
func TestTamper(t *testing.T) {
	other := mustReturn(store.NewKey(bytes.Repeat([]byte("other"), 8)))
	cases := []struct {
		name string
		do   func(t *testing.T, dir string)
		id   store.ID
		want error
	}{
		{"copied to another number", func(t *testing.T, dir string) { copyFile(t, dir+"/mini/1/1", dir+"/mini/1/7") }, checkpointID(1, 7), store.ErrPlace},
		{"copied to another job", func(t *testing.T, dir string) {
			failOn(t, os.Mkdir(dir+"/mini/2", 0o700))
			copyFile(t, dir+"/mini/1/1", dir+"/mini/2/1")
		}, checkpointID(2, 1), store.ErrPlace},
		{"exchanged", func(t *testing.T, dir string) {
			failOn(t, os.Rename(dir+"/mini/1/2", dir+"/mini/1/1"))
		}, checkpointID(1, 1), store.ErrPlace},
		{"edited", func(t *testing.T, dir string) {
			text := mustReturn(os.ReadFile(dir + "/mini/1/1"))
			failOn(t, os.WriteFile(dir+"/mini/1/1", bytes.Replace(text, []byte(`"rank":0`), []byte(`"rank":1`), 1), 0o600))
		}, checkpointID(1, 1), store.ErrMAC},
		{"sealed with another key", func(t *testing.T, dir string) {
			be := storetest.NewMem()
			s := mustReturn(store.Open(t.Context(), be, other, store.Options{}))
			failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), []byte("evil")))
			failOn(t, os.WriteFile(dir+"/mini/1/1", be.Files("manifests/")["manifests/mini/1/1"], 0o600))
		}, checkpointID(1, 1), store.ErrMAC},
		{"readable by others", func(t *testing.T, dir string) { failOn(t, os.Chmod(dir+"/mini/1/1", 0o644)) }, checkpointID(1, 1), store.ErrForeign},
		{"another owner", func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root: chown")
			}
			failOn(t, os.Chown(dir+"/mini/1/1", 1234, 1234))
		}, checkpointID(1, 1), store.ErrForeign},
		{"symbolic link", func(t *testing.T, dir string) {
			failOn(t, os.Rename(dir+"/mini/1/1", dir+"/mini/1/9"))
			failOn(t, os.Symlink("9", dir+"/mini/1/1"))
		}, checkpointID(1, 1), store.ErrForeign},
		{"symbolic link above", func(t *testing.T, dir string) {
			failOn(t, os.Rename(dir+"/mini/1", dir+"/mini/8"))
			failOn(t, os.Symlink("8", dir+"/mini/1"))
		}, checkpointID(1, 1), store.ErrForeign},
		{"folder", func(t *testing.T, dir string) {
			failOn(t, os.Remove(dir+"/mini/1/1"))
			failOn(t, os.Mkdir(dir+"/mini/1/1", 0o700))
		}, checkpointID(1, 1), store.ErrForeign},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			be := newFolder(t)
			s := openStore(t, be, store.Options{})
			failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), []byte("one")))
			failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), []byte("two")))
			c.do(t, filepath.Join(be.Path(), "manifests"))
			_, err := s.Open(t.Context(), c.id)
			var refused *store.RefusedError
			if !errors.As(err, &refused) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), "manifest "+c.id.String()) {
				t.Fatalf("error %v, want a refusal because %v", err, c.want)
			}
			if strings.HasSuffix(c.name, "above") {
				if _, err := s.GC(t.Context(), store.Policy{}, nil, false); !errors.Is(err, store.ErrForeign) {
					t.Errorf("a collection among folders that are not its own: %v", err)
				}
				return
			}
			deleteDamaged(t, s, c.id)
		})
	}
}

// deleteDamaged checks that a collection names a checkpoint that cannot be read, and that
// the next collection does not name the deleted checkpoint.
func deleteDamaged(t *testing.T, s *store.Store, id store.ID) {
	t.Helper()
	named := func() bool {
		r, err := s.GC(t.Context(), store.Policy{}, nil, false)
		failOn(t, err)
		return slices.ContainsFunc(r.Damaged, func(d store.Summary) bool { return d.ID == id && d.Err != nil })
	}
	if !named() {
		t.Error("a collection does not name a manifest that it cannot read")
	}
	failOn(t, s.Delete(t.Context(), id))
	if named() {
		t.Error("a collection names a damaged manifest that was deleted")
	}
}

// TestCollectionOverDamage: old checkpoints are deleted, chunks stay as long as a checkpoint may need them, and all
// unused chunks are deleted once the damaged checkpoints are.
func TestCollectionOverDamage(t *testing.T) {
	large := storetest.NewImage(3, 40000).Bytes() // its recipe has pieces
	for name, damage := range map[string]func(be *storetest.Mem){
		"manifest": func(be *storetest.Mem) { be.Overwrite("manifests/mini/2/1", []byte("nonsense")) },
		"piece of a recipe": func(be *storetest.Mem) {
			text := string(be.Files("manifests/")["manifests/mini/2/1"])
			_, piece, ok := strings.Cut(text, `"pieces":[{"hash":"`)
			if !ok {
				t.Fatal("no recipe of its own: " + text)
			}
			failOn(t, be.Remove(t.Context(), "chunks/"+piece[:2]+"/"+piece[:64]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			be := storetest.NewMem()
			s := openStore(t, be, store.Options{})
			failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), storetest.NewImage(1, 800).Bytes()))
			kept := storetest.NewImage(2, 800).Bytes()
			failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), kept))
			failOn(t, dumpRanks(t.Context(), s, checkpointID(2, 1), large))
			damage(be)
			before := len(be.Files("chunks/"))
			one := store.Policy{Retention: store.Retention{Count: 1}}
			for _, dry := range []bool{true, false} {
				r := mustReturn(s.GC(t.Context(), one, nil, dry))
				if len(r.Damaged) != 1 || r.Damaged[0].ID != checkpointID(2, 1) || fmt.Sprint(r.Expired) != "[mini/1/1]" || r.Chunks != 0 || r.Swept != 0 {
					t.Errorf("report with dry run %v = %+v, want the damaged checkpoint and one expired", dry, r)
				}
			}
			if after := len(be.Files("chunks/")); after != before {
				t.Errorf("%d chunks of %d stay", after, before)
			}
			failOn(t, s.Delete(t.Context(), checkpointID(2, 1)))
			r := mustReturn(s.GC(t.Context(), one, nil, false))
			if len(r.Damaged) != 0 || r.Chunks == 0 || len(be.Files("chunks/")) >= before/2 {
				t.Errorf("when it was deleted: %+v, %d chunks of %d stay", r, len(be.Files("chunks/")), before)
			}
			if got := mustReturn(readBack(t.Context(), s, checkpointID(1, 2), 0)); !bytes.Equal(got, kept) {
				t.Error("the kept bytes are not the written bytes")
			}
		})
	}
}

// TestWrongKey: with another key no checkpoint can be read, and nothing is deleted.
func TestWrongKey(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	for n := range 3 {
		failOn(t, dumpRanks(t.Context(), s, checkpointID(1, uint32(n+1)), storetest.NewImage(uint64(n), 800).Bytes()))
	}
	before := len(be.Files(""))
	other := mustReturn(store.Open(t.Context(), be, mustReturn(store.NewKey(bytes.Repeat([]byte("other"), 8))), store.Options{}))
	defer other.Close()
	r := mustReturn(other.GC(t.Context(), store.Policy{Retention: store.Retention{Count: 1, Age: time.Nanosecond, Ended: func(store.JobID) bool { return true }}}, nil, false))
	if len(r.Damaged) != 3 || len(r.Expired) != 0 || len(be.Files("chunks/"))+len(be.Files("manifests/")) < before-5 {
		t.Errorf("report with another key = %+v, want 3 damaged checkpoints and no deletion", r)
	}
	if v := mustReturn(s.Verify(t.Context(), nil, nil)); v.Checkpoints != 3 || len(v.Problems) != 0 {
		t.Errorf("report of Verify = %+v, want 3 checkpoints without problems", v)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	failOn(t, os.WriteFile(to, mustReturn(os.ReadFile(from)), 0o600))
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	failOn(t, store.GenerateKey(path))
	if err := store.GenerateKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second key: %v", err)
	}
	mustReturn(store.KeyFile(path))
	cases := []struct {
		name string
		do   func() error
		want string
	}{
		{"group may read", func() error { return os.Chmod(path, 0o640) }, "mode 0640, want 0600"},
		{"short", func() error { return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, 31)) }, "31 bytes, want 32"},
		{"link", func() error { return errors.Join(os.Rename(path, path+"2"), os.Symlink("key2", path)) }, "symbolic link"},
		{"folder", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "not a regular file"},
		{"missing", func() error { return os.Remove(path) }, "no such file"},
	}
	for _, c := range cases {
		failOn(t, c.do())
		if _, err := store.KeyFile(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("KeyFile, case %q: error %v, want %q", c.name, err, c.want)
		}
	}
}
