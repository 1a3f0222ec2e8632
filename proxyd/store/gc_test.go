// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestWritersAndCollectors lets dumps, restores, deletes and collections of a single store run
// at once, each through a Store of its own as on nodes of their own, with data that they
// share. The seed decides the data; the order is the scheduler's.
func TestWritersAndCollectors(t *testing.T) { runSeeded(t, testMingled) }

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests, as their log says it; 0: a new one")

// runSeeded runs a random test on each back end. openBackend is called for each Store: with
// STORE_TEST_MOUNTS the nodes have the folder by a single mount of a shared file system each.
func runSeeded(t *testing.T, run func(t *testing.T, openBackend func() store.Backend, seed uint64)) {
	t.Helper()
	for _, name := range []string{"mem", "posix"} {
		t.Run(name, func(t *testing.T) {
			mem := storetest.NewMem()
			openBackend := func() store.Backend { return mem }
			if name == "posix" {
				openBackend = openByMounts(t)
			}
			openStore(t, openBackend(), store.Options{})
			seed := cmp.Or(*seedFlag, uint64(time.Now().UnixNano()))
			t.Logf("replay with: go test -run %s ./proxyd/store -seed %d", t.Name(), seed)
			run(t, openBackend, seed)
		})
	}
}

// openByMounts returns a function that opens an empty folder, by the mounts that STORE_TEST_MOUNTS lists in turn.
// All of them show the same file system.
func openByMounts(t *testing.T) func() store.Backend {
	all := filepath.SplitList(os.Getenv("STORE_TEST_MOUNTS"))
	if len(all) == 0 {
		be := newFolder(t)
		return func() store.Backend { return be }
	}
	dir, err := os.MkdirTemp(all[0], "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	calls := 0
	return func() store.Backend {
		be, err := posix.Open(filepath.Join(all[calls%len(all)], filepath.Base(dir)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { be.Close() })
		calls++
		return be
	}
}

func testMingled(t *testing.T, openBackend func() store.Backend, seed uint64) {
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	images := make([][]byte, 6)
	base := storetest.NewImage(seed, 120)
	for i := range images {
		images[i] = base.Touch(seed+uint64(i), i).Bytes()
	}
	var wg, collectors sync.WaitGroup
	done := make(chan struct{})
	var runs atomic.Int64
	for range 2 {
		s := openStore(t, openBackend(), store.Options{})
		collectors.Go(func() {
			for {
				if _, err := s.GC(t.Context(), store.Policy{}, nil, false); err == nil {
					runs.Add(1)
				} else if !errors.Is(err, store.ErrBusy) {
					t.Errorf("GC: %v", err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for node := range 4 {
		s := openStore(t, openBackend(), store.Options{})
		r := rand.New(rand.NewPCG(seed, uint64(node)))
		wg.Go(func() {
			for n := range rounds {
				id, image := checkpointID(uint32(node+1), uint32(n)), images[r.IntN(len(images))]
				if err := oneRound(t.Context(), s, id, image, r.IntN(3) > 0); err != nil {
					t.Errorf("round of checkpoint %s: %v", id, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(done)
	collectors.Wait()
	s := openStore(t, openBackend(), store.Options{})
	report, err := s.Verify(t.Context(), nil, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Verify = %+v, %v, want no problems", report, err)
	}
	t.Logf("%d collections, %d checkpoints left", runs.Load(), report.Checkpoints)
}

// TestEverybodyIsTakenForDead lets writers and collectors fence each other all the time, though all of them live: dumps
// and collections may fail, but committed checkpoints are whole.
func TestEverybodyIsTakenForDead(t *testing.T) { runSeeded(t, testDistrust) }

// On a slow file system the writers stop after some time, but not before each has written some checkpoints.
const (
	distrustTime  = 20 * time.Second
	distrustLeast = 4
)

func testDistrust(t *testing.T, openBackend func() store.Backend, seed uint64) {
	opt := store.Options{Beat: time.Hour, Lapse: time.Nanosecond}
	rounds := 60
	if testing.Short() {
		rounds = 25
	}
	base := storetest.NewImage(seed, 60)
	began := time.Now()
	var writers, collectors sync.WaitGroup
	var collected, fenced atomic.Int64
	collecting, stopCollecting := context.WithCancel(t.Context())
	defer stopCollecting()
	for range 3 {
		s := openStore(t, openBackend(), opt)
		collectors.Go(func() {
			for collecting.Err() == nil {
				if _, err := s.GC(collecting, store.Policy{}, nil, false); err == nil {
					collected.Add(1)
				}
			}
		})
	}
	var committed sync.Map
	for node := range 3 {
		s := openStore(t, openBackend(), opt)
		r := rand.New(rand.NewPCG(seed, uint64(node)))
		writers.Go(func() {
			for n := range rounds {
				if n >= distrustLeast && time.Since(began) > distrustTime {
					return
				}
				id, image := checkpointID(uint32(node+1), uint32(n)), base.Touch(uint64(r.IntN(4)), 3).Bytes()
				err := dumpRanks(t.Context(), s, id, image)
				switch {
				case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrFenced):
					fenced.Add(1)
				case err != nil:
					t.Errorf("dump of checkpoint %s: %v", id, err)
				default:
					committed.Store(id, image)
				}
				if last := checkpointID(uint32(node+1), uint32(n-1)); n > 0 && r.IntN(2) > 0 {
					committed.Delete(last)
					_ = s.Delete(t.Context(), last)
				}
			}
		})
	}
	writers.Wait()
	stopCollecting()
	collectors.Wait()
	s, n := openStore(t, openBackend(), store.Options{}), 0
	committed.Range(func(id, image any) bool {
		n++
		if got, err := readBack(t.Context(), s, id.(store.ID), 0); err != nil || !bytes.Equal(got, image.([]byte)) {
			t.Errorf("%s was committed: %v", id, err)
		}
		return true
	})
	t.Logf("%d checkpoints left, %d dumps failed, %d collections", n, fenced.Load(), collected.Load())
}

// oneRound dumps, reads back, and deletes in the middle of a second reading.
func oneRound(ctx context.Context, s *store.Store, id store.ID, image []byte, drop bool) error {
	if err := dumpRanks(ctx, s, id, image); err != nil {
		return err
	}
	got, err := readBack(ctx, s, id, 0)
	if err != nil || !bytes.Equal(got, image) {
		return fmt.Errorf("read back %d bytes: %w", len(got), err)
	}
	if !drop {
		return nil
	}
	r, err := s.Open(ctx, id)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := s.Delete(ctx, id); err != nil {
		return err
	}
	if _, err := s.Open(ctx, id); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open after delete: %w", err)
	}
	st, err := r.Stream(store.StreamID{Node: "n1", Rank: 0, Name: "pages-1.img"})
	if err != nil {
		return err
	}
	defer st.Close()
	if got, err := io.ReadAll(st); err != nil || !bytes.Equal(got, image) {
		return fmt.Errorf("read while deleted, %d bytes: %w", len(got), err)
	}
	return nil
}

// TestFencedWriterCannotCommit: a writer that collectors took for dead while the writer was suspended.
func TestFencedWriterCannotCommit(t *testing.T) {
	be := storetest.NewMem()
	slow := openStore(t, be, store.Options{Beat: time.Hour})
	w := mustReturn(slow.Create(t.Context(), store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	failOn(t, writeRanks(w, [][]byte{storetest.NewImage(1, 100).Bytes()}))
	now := time.Now()
	s := openStore(t, be, store.Options{Lapse: time.Minute, Now: func() time.Time { return now }})
	for range 2 {
		mustReturn(s.GC(t.Context(), store.Policy{}, nil, false))
		now = now.Add(2 * time.Minute)
	}
	mustReturn(s.GC(t.Context(), store.Policy{}, nil, false))
	if n := len(be.Files("chunks/")) + len(be.Files("trash/")); n != 0 {
		t.Errorf("%d chunks of a dead writer are left", n)
	}
	if _, err := w.Commit(t.Context(), nil); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Commit: error %v, want ErrFenced", err)
	}
	failOn(t, w.Abort(t.Context()))
	if list := mustReturn(s.List(t.Context(), nil)); len(list) != 0 {
		t.Errorf("List = %v, want no checkpoint", list)
	}
}

func TestDeadProcessIsKnownAtOnce(t *testing.T) {
	be := storetest.NewMem()
	me := mustReturn(store.ThisProcess())
	if store.ProcessGone(me) || store.ProcessGone("elsewhere/1/2/3") || store.ProcessGone("") {
		t.Fatal("a living or unknown process is said to be gone")
	}
	s := openStore(t, be, store.Options{Owner: me, Beat: time.Hour})
	mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	gone := openStore(t, be, store.Options{OwnerGone: func(o string) bool { return o == me }})
	mustReturn(gone.GC(t.Context(), store.Policy{}, nil, false))
	if n := len(be.Files("leases/")); n != 0 {
		t.Errorf("%d files in leases/", n)
	}
}

func TestRetention(t *testing.T) {
	day := 24 * time.Hour
	now := time.Unix(1e9, 0)
	at := func(job, number uint32, age time.Duration) store.Summary {
		return store.Summary{ID: checkpointID(job, number), Created: now.Add(-age)}
	}
	all := []store.Summary{at(1, 1, 9*day), at(1, 2, 5*day), at(1, 3, day), at(2, 7, 9*day), at(2, 10, 8*day)}
	bad := at(2, 11, 9*day)
	bad.Err = errors.New("damaged")
	all = append(all, bad) // neither counts nor goes
	over := func(j store.JobID) bool { return j.Job == 2 }
	needs := func(id store.ID) bool { return id == checkpointID(1, 1) || id == checkpointID(2, 7) }
	cases := []struct {
		name string
		r    store.Retention
		want string
	}{
		{"all", store.Retention{}, "[]"},
		{"two", store.Retention{Count: 2}, "[mini/1/1]"},
		{"one", store.Retention{Count: 1}, "[mini/1/1 mini/1/2 mini/2/7]"},
		{"young", store.Retention{Age: 6 * day}, "[mini/1/1 mini/2/7]"},
		{"the newest stays", store.Retention{Age: time.Hour}, "[mini/1/1 mini/1/2 mini/2/7]"},
		{"and what another is made of", store.Retention{Count: 1, Needs: needs}, "[mini/1/2]"},
		{"unless the job is over", store.Retention{Age: 2 * day, Ended: over, Needs: needs}, "[mini/1/2 mini/2/7 mini/2/10]"},
		{"but not when the job is over", store.Retention{Age: 2 * day, Ended: over}, "[mini/1/1 mini/1/2 mini/2/7 mini/2/10]"},
		{"and then no age is any", store.Retention{Ended: over}, "[mini/2/7 mini/2/10]"},
		{"the two newest at any age", store.Retention{Age: time.Hour, Protect: 2}, "[mini/1/1]"},
		{"the newest of a job that is over", store.Retention{Age: 2 * day, Protect: 1, Ended: over}, "[mini/1/1 mini/1/2 mini/2/7]"},
		{"all but one, over or not", store.Retention{Count: 1, Protect: 1, Ended: over}, "[mini/1/1 mini/1/2 mini/2/7]"},
		{"over, and young", store.Retention{Age: 30 * day, Ended: over}, "[]"},
	}
	for _, c := range cases {
		if got := fmt.Sprint(c.r.Expired(now, all)); got != c.want {
			t.Errorf("%s: expired checkpoints = %s, want %s", c.name, got, c.want)
		}
	}
}

// TestNeededSince: an expired checkpoint stays if another has begun to need it before its turn.
func TestNeededSince(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	for i := range 3 {
		failOn(t, dumpRanks(t.Context(), s, checkpointID(1, uint32(i)), storetest.NewImage(uint64(i), 50).Bytes()))
	}
	asked := map[store.ID]bool{}
	since := func(id store.ID) bool { // false at the first question
		again := asked[id]
		asked[id] = true
		return again && id == checkpointID(1, 1)
	}
	r := mustReturn(s.GC(t.Context(), store.Policy{Retention: store.Retention{Count: 1, Needs: since}}, nil, false))
	if got := fmt.Sprint(r.Expired); got != "[mini/1/0]" {
		t.Errorf("deleted checkpoints = %s, want number 0 alone", got)
	}
	if left := mustReturn(s.List(t.Context(), nil)); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	for i := range 3 {
		failOn(t, dumpRanks(t.Context(), s, checkpointID(1, uint32(i)), storetest.NewImage(uint64(i), 50).Bytes()))
	}
	before := len(be.Files(""))
	keepOne := store.Policy{Retention: store.Retention{Count: 1}}
	dry := mustReturn(s.GC(t.Context(), keepOne, nil, true))
	if len(be.Files("")) != before || len(dry.Expired) != 2 || dry.Chunks == 0 {
		t.Fatalf("dry run %+v", dry)
	}
	wet := mustReturn(s.GC(t.Context(), keepOne, nil, false))
	if wet.Chunks != dry.Chunks || wet.Bytes != dry.Bytes || len(wet.Expired) != 2 {
		t.Errorf("%+v, the dry run said %+v", wet, dry)
	}
}

func TestExport(t *testing.T) {
	s := openStore(t, newFolder(t), store.Options{})
	data := append(storetest.NewImage(1, 800).Bytes(), make([]byte, 1<<20)...)
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), data, data[:77]))
	dir := t.TempDir()
	failOn(t, s.Export(t.Context(), checkpointID(1, 1), dir, nil))
	for name, want := range map[string][]byte{"n1/0/pages-1.img": data, "n1/1/pages-1.img": data[:77]} {
		if got := mustReturn(os.ReadFile(filepath.Join(dir, name))); !bytes.Equal(got, want) {
			t.Errorf("exported file %s has other bytes", name)
		}
	}
	if err := s.Export(t.Context(), checkpointID(1, 1), dir, nil); err == nil {
		t.Error("exported over an export")
	}
}

// TestDiskFull fills a real file system in the middle of a dump.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=24m,mode=0700"); err != nil {
		t.Skipf("needs root and CAP_SYS_ADMIN: mount tmpfs: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	be := mustReturn(posix.Open(dir))
	defer be.Close()
	s := openStore(t, be, store.Options{})
	small := storetest.Noise(1, 1000).Bytes()
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), small))
	var short *store.SpaceError
	if _, err := s.Reserve(t.Context(), "big", 100<<20); !errors.As(err, &short) {
		t.Errorf("Reserve of more than is free: error %v, want a SpaceError", err)
	}
	w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 2), Node: "n1"}))
	err := writeRanks(w, [][]byte{storetest.Noise(2, 12_000).Bytes()})
	if err == nil {
		_, err = w.Commit(t.Context(), nil)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
	if _, again := w.Stream(1, "x"); !errors.Is(again, syscall.ENOSPC) {
		t.Errorf("the writer did not stay failed: %v", again)
	}
	failOn(t, w.Abort(t.Context()))
	mustReturn(s.GC(t.Context(), store.Policy{}, nil, false))
	if got, err := readBack(t.Context(), s, checkpointID(1, 1), 0); err != nil || !bytes.Equal(got, small) {
		t.Errorf("the earlier checkpoint: %v", err)
	}
	if left := mustReturn(os.ReadDir(filepath.Join(dir, "tmp"))); len(left) != 0 {
		t.Errorf("tmp holds %d files", len(left))
	}
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), storetest.Noise(3, 1000).Bytes()))
}

// TestWhatWaits: a collection that frees no space reports how much will be freed, and when.
func TestWhatWaits(t *testing.T) {
	s := openStore(t, newFolder(t), store.Options{})
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), storetest.NewImage(1, 300).Bytes()))
	collect := func(grace time.Duration, dry bool) store.GCReport {
		t.Helper()
		return mustReturn(s.GC(t.Context(), store.Policy{Grace: grace}, nil, dry))
	}
	if r := collect(time.Hour, false); r.Spared != (store.SparedChunks{}) || r.Open != 0 {
		t.Errorf("while all is needed: %+v", r)
	}
	reader := mustReturn(s.Open(t.Context(), checkpointID(1, 1)))
	failOn(t, s.Delete(t.Context(), checkpointID(1, 1)))
	if r := collect(0, false); r.Open != 1 || r.Chunks != 0 {
		t.Errorf("while it is read: %+v", r)
	}
	reader.Close()
	before := time.Now()
	for _, dry := range []bool{true, false} {
		r := collect(time.Hour, dry)
		until := r.Spared.Until.Sub(before)
		if r.Chunks != 0 || r.Bytes != 0 || r.Spared.Chunks == 0 || r.Spared.Bytes == 0 || until <= 0 || until > time.Since(before)+time.Hour || r.Open != 0 {
			t.Errorf("dry %v, while it is new: %+v", dry, r)
		}
	}
	if r := collect(0, false); r.Chunks == 0 || r.Spared != (store.SparedChunks{}) {
		t.Errorf("at last: %+v", r)
	}
}

// TestBytesOfACollection: the bytes of a file that several chunks share are counted once.
func TestBytesOfACollection(t *testing.T) {
	be := newFolder(t)
	s := openStore(t, be, store.Options{})
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), storetest.NewImage(1, 3000).Bytes()))
	there := diskUsage(t, be.Path())
	failOn(t, s.Delete(t.Context(), checkpointID(1, 1)))
	dry := mustReturn(s.GC(t.Context(), store.Policy{}, nil, true))
	r := mustReturn(s.GC(t.Context(), store.Policy{}, nil, false))
	if left := diskUsage(t, be.Path()); left != 0 {
		t.Fatalf("%d KiB are left", left)
	}
	if r.Bytes/1024 > there || r.Bytes/1024 < there-r.Chunks/1024-1 {
		t.Errorf("%d chunks of %d KiB went, as the report says; there were %d KiB", r.Chunks, r.Bytes/1024, there)
	}
	if dry.Bytes != r.Bytes || dry.Chunks != r.Chunks {
		t.Errorf("the dry run said %d chunks of %d bytes, the run %d of %d", dry.Chunks, dry.Bytes, r.Chunks, r.Bytes)
	}
}

// TestCompact: the chunks that are left of a pack do not keep its whole space.
func TestCompact(t *testing.T) {
	be := newFolder(t)
	s := openStore(t, be, store.Options{})
	im := storetest.NewImage(1, 8000)
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), im.Bytes()))
	// Clearly less than half of the chunks of a single pack.
	kept := append(im[:500:500], storetest.NewImage(2, 10)...).Bytes()
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), kept))
	full := diskUsage(t, be.Path())
	failOn(t, s.Delete(t.Context(), checkpointID(1, 1)))
	mustReturn(s.GC(t.Context(), store.Policy{}, nil, false))
	if left := diskUsage(t, be.Path()); left > full/3 {
		t.Errorf("%d of %d KiB are left", left, full)
	}
	if got, err := readBack(t.Context(), s, checkpointID(1, 2), 0); err != nil || !bytes.Equal(got, kept) {
		t.Errorf("read back: %v", err)
	}
}

// diskUsage is the KiB that inodes below a folder's chunks take, each once.
func diskUsage(t *testing.T, dir string) int64 {
	inodes := make(map[uint64]int64)
	failOn(t, filepath.WalkDir(filepath.Join(dir, "chunks"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			st := mustReturn(d.Info()).Sys().(*syscall.Stat_t)
			inodes[st.Ino] = st.Size / 1024
		}
		return err
	}))
	var sum int64
	for _, n := range inodes {
		sum += n
	}
	return sum
}
