// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// forgetAnything has Forget remove a log's beginning however short that is.
func forgetAnything(t *testing.T) {
	had := minForget
	minForget = 1
	t.Cleanup(func() { minForget = had })
}

// longRun is a change list, and a model of the entries that the change list must return.
type longRun struct {
	t       *testing.T
	j       *ChangeList
	draw    *rand.Rand
	paths   []string     // of all changes, in the order of the calls of Add
	marks   map[Mark]int // by mark: how many of the paths come before
	added   int          // paths were ever added; a restore takes some back
	forgot  Mark         // the changes before this mark were removed
	dropped int          // how many of the paths come before forgot
}

// addPaths adds changes of new paths, and a mark behind them.
func (r *longRun) addPaths() {
	for range r.draw.IntN(20) {
		r.added++
		path := fmt.Sprintf("/home/alice/%d", r.added)
		if err := r.j.Add(Entry{Kind: Written, Path: path}); err != nil {
			r.t.Fatal(err)
		}
		r.paths = append(r.paths, path)
	}
	mark, err := r.j.Cut()
	if err != nil {
		r.t.Fatal(err)
	}
	r.marks[mark] = len(r.paths)
}

// drawMark returns one of the marks.
func (r *longRun) drawMark() Mark {
	return slices.Sorted(maps.Keys(r.marks))[r.draw.IntN(len(r.marks))]
}

// forgetBeginning removes the changes before a mark, which may be a mark that was removed already.
func (r *longRun) forgetBeginning() {
	m := r.drawMark()
	if err := r.j.Forget(m); err != nil {
		r.t.Fatalf("Forget(%d): %v", m, err)
	}
	if m > r.forgot {
		r.forgot, r.dropped = m, r.marks[m]
	}
}

// rewindToMark goes back to a mark, as a restore does, and perhaps to a mark before which all changes were removed.
func (r *longRun) rewindToMark() {
	m := r.drawMark()
	if err := r.j.Rewind(m, nil); err != nil {
		r.t.Fatalf("Rewind(%d): %v", m, err)
	}
	r.paths = r.paths[:r.marks[m]]
	if m < r.forgot {
		r.forgot, r.dropped = m, r.marks[m]
	}
	for later := range r.marks {
		if later > m {
			delete(r.marks, later)
		}
	}
}

// openAgain closes the journal, and opens its files again, as the next proxyd does.
func (r *longRun) openAgain() {
	dir, log := filepath.Dir(r.j.list.Name()), r.j.logPath
	if err := r.j.Close(); err != nil {
		r.t.Fatal(err)
	}
	j, err := OpenChangeList(dir, log)
	if err != nil {
		r.t.Fatal(err)
	}
	r.j = j
}

// checkEntries compares what Since returns for each mark.
func (r *longRun) checkEntries() {
	if got := r.j.Forgotten(); got != r.forgot {
		r.t.Fatalf("Forgotten() = %d, want %d", got, r.forgot)
	}
	for m, before := range r.marks {
		got := touchedSince(r.t, r.j, m)
		want := r.paths[max(before, r.dropped):]
		if got.Lost != (m < r.forgot) || len(got.Entries) != len(want) {
			r.t.Fatalf("since mark %d, forgotten %d: %d entries, lost %v; want %d", m, r.forgot, len(got.Entries), got.Lost, len(want))
		}
		for i, e := range got.Entries {
			if e.Path != want[i] {
				r.t.Fatalf("since mark %d: entry %d is %s, want %s", m, i, e.Path, want[i])
			}
		}
	}
}

// TestForget: after the changes before a mark were removed, Since returns the same for later marks, and reports changes as
// lost for earlier marks. Both hold after the change list is opened again, and after a restore has gone back to a mark.
func TestForget(t *testing.T) {
	forgetAnything(t)
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			j, _ := changeListFor(t)
			r := &longRun{t: t, j: j, draw: rand.New(rand.NewPCG(seed, 1)), marks: map[Mark]int{0: 0}}
			for range 60 {
				switch n := r.draw.IntN(10); {
				case n < 6:
					r.addPaths()
				case n < 8:
					r.forgetBeginning()
				case n < 9:
					r.openAgain()
				default:
					r.rewindToMark()
				}
				r.checkEntries()
			}
			if err := r.j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestForgetKeepsPlaces: a change list that is opened after Forget reads no entry of the list twice, and knows of
// programs that bypassed the shim.
func TestForgetKeepsPlaces(t *testing.T) {
	forgetAnything(t)
	dir := ownFolder(t)
	j, env := changeListFor(t)
	runAsUser(t, env, "/bin/sh", "-c", ": >"+dir+"/one")
	j.recordBypass()
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Forget(mark); err != nil {
		t.Fatal(err)
	}
	runAsUser(t, env, "/bin/sh", "-c", ": >"+dir+"/two")
	again, err := OpenChangeList(filepath.Dir(j.list.Name()), j.logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if s, want := describeEntries(touchedSince(t, again, mark).Entries), "\nc "+dir+"/two"; s != want {
		t.Errorf("after the mark: got%s\nwant%s", s, want)
	}
	if ever, unwatched := again.hadBypass(); !ever || !unwatched {
		t.Errorf("hadBypass() = %v, %v; want true, true", ever, unwatched)
	}
}

// TestForgetWithoutSpace: where there is no space for the rest of the log, the log stays as it is.
func TestForgetWithoutSpace(t *testing.T) {
	forgetAnything(t)
	dir := ownFolder(t)
	j, env := changeListFor(t)
	logDir := makeSmallLog(t, j)
	first := makeFiles(t, env, dir, 60)
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	second := makeFiles(t, env, ownFolder(t), 60)
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	empty := fillFolder(t, logDir)
	if err := j.Forget(mark); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Forget on a full disk: %v, want ENOSPC", err)
	}
	if got := touchedSince(t, j, 0); describeEntries(got.Entries) != first+second || got.Lost {
		t.Errorf("after a failed Forget: %d entries, lost %v; want 120", len(got.Entries), got.Lost)
	}
	if _, err := os.Stat(j.logPath + NewName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished log is still there: %v", err)
	}
	empty()
	if err := j.Forget(mark); err != nil {
		t.Fatal(err)
	}
	if got := touchedSince(t, j, mark); describeEntries(got.Entries) != second || got.Lost {
		t.Errorf("after Forget: %d entries, lost %v; want 60", len(got.Entries), got.Lost)
	}
}

// TestLogNeverFull: a change list that loses its old changes takes more than a log can have.
func TestLogNeverFull(t *testing.T) {
	if testing.Short() {
		t.Skip("writes more than 256 MiB")
	}
	j, _ := changeListFor(t)
	var mark Mark
	long := false
	for round := 0; int64(mark) < maxLog+maxLog/8; round++ {
		appendMore(t, j, round, manyRecords)
		got := touchedSince(t, j, mark)
		if len(got.Entries) != manyRecords || got.Lost {
			t.Fatalf("round %d: %d entries of %d, lost %v", round, len(got.Entries), manyRecords, got.Lost)
		}
		long = long || j.IsLong()
		if err := j.Forget(mark); err != nil {
			t.Fatal(err)
		}
		mark = got.Until
	}
	if !long {
		t.Error("IsLong() was false all the time")
	}
}
