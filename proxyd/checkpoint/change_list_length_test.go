// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/filestate"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// newChangeList returns a capsule's change list with an empty list and log.
func newChangeList(t *testing.T) *files.ChangeList {
	t.Helper()
	dir := t.TempDir()
	noError(t, files.CreateChangeList(filepath.Join(dir, "list"), uint32(os.Getuid()), uint32(os.Getgid())))
	changes, err := files.OpenChangeList(filepath.Join(dir, "list"), filepath.Join(dir, "log"))
	noError(t, err)
	t.Cleanup(func() { noError(t, changes.Close()) })
	return changes
}

// addChanges adds many changes to a change list, and returns the mark behind them.
func addChanges(t *testing.T, changes *files.ChangeList, round int) files.Mark {
	t.Helper()
	for i := range 4500 {
		noError(t, changes.Add(files.Entry{Kind: files.Written, Path: fmt.Sprintf("/%d/%d/%s", round, i, strings.Repeat("x", 4000))}))
	}
	mark, err := changes.Cut()
	noError(t, err)
	return mark
}

// TestShortenChangeList: a long list of changed files loses the changes before the oldest checkpoint in the store. If the
// beginning of a dump is among the lost changes, the dump begins from the newest checkpoint of the run.
func TestShortenChangeList(t *testing.T) {
	l := newLab(t)
	c := l.bootNode("n1", t.TempDir()+"/s", nil)
	j := c.jobFor(7)
	j.run.BeginNext(&records.Record{}, 2, nil, nil)
	lc := &localCapsule{j: j, index: 0, changes: newChangeList(t)}
	save := func(number uint32, mark files.Mark) {
		t.Helper()
		w, err := c.Store.Create(t.Context(), store.Upload{ID: l.checkpointID(number), Node: "n1"})
		noError(t, err)
		summary, err := filestate.Save(upload.StoreShare{Writer: w, Node: "n1"}, "0/", &files.State{Serial: int(number), Mark: mark})
		noError(t, err)
		meta := records.Meta{Run: 2, Capsules: []records.CapsuleMeta{{Index: 0, Node: "n1", FilesSummary: summary}}}
		b, err := meta.Encode()
		noError(t, err)
		_, err = w.Commit(t.Context(), b)
		noError(t, err)
	}
	expect := func(what string, forgotten files.Mark) {
		t.Helper()
		noError(t, fileHistory{lc}.shortenChangeList(t.Context()))
		if got := lc.changes.Forgotten(); got != forgotten {
			t.Fatalf("%s: the changes before %d are removed, want %d", what, got, forgotten)
		}
	}
	first := addChanges(t, lc.changes, 0)
	save(1, first)
	expect("a short list", 0)
	second := addChanges(t, lc.changes, 1)
	expect("a long list, one checkpoint", first)
	save(2, second)
	third := addChanges(t, lc.changes, 2)
	expect("a long list, two checkpoints", first)
	noError(t, c.Store.Delete(t.Context(), l.checkpointID(1)))
	expect("a long list, the older checkpoint deleted", second)

	before, inBase, touched, err := fileHistory{lc}.changesSinceEarlier(t.Context(), nil)
	if err != nil || before == nil || before.Serial != 2 || inBase || touched.Lost || touched.Until != third {
		t.Errorf("a dump without a base: state %+v, in the base %v, lost %v, until %d, %v; want the state of checkpoint 2, all changes since, until %d",
			before, inBase, touched.Lost, touched.Until, err, third)
	}
	noError(t, c.Store.Delete(t.Context(), l.checkpointID(2)))
	before, _, touched, err = fileHistory{lc}.changesSinceEarlier(t.Context(), nil)
	if err != nil || before != nil || !touched.Lost {
		t.Errorf("a dump without a checkpoint: state %+v, lost %v, %v; want none, and that changes are lost", before, touched.Lost, err)
	}
}
