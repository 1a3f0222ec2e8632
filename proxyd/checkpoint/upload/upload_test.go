// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestUpload: a staged checkpoint arrives, a restore waits until then, and stages and
// record are gone afterwards.
func TestUpload(t *testing.T) {
	l := newLab(t)
	n1, n2, n3 := l.bootNode("n1", t.TempDir()+"/s", nil), l.bootNode("n2", t.TempDir()+"/s", nil), l.bootNode("n3", t.TempDir()+"/s", nil)
	up := l.stageCheckpoint(1, true)
	stored := make(chan store.ID, 1)
	n1.stored = stored
	n1.Start(up, nil)
	if lost, err := l.awaitRestore(n3, time.Minute); lost != nil || err != nil {
		t.Fatalf("wait for the upload: lost %+v, error %v", lost, err)
	}
	if id := <-stored; id.Number != 1 {
		t.Errorf("%v was reported as stored", id)
	}
	l.checkStored(1)
	l.waitUntilEmpty(n1)
	l.waitUntilEmpty(n2)
	if up, err := n3.folder.loadRecord(7); up != nil || err != nil {
		t.Errorf("record %+v, %v", up, err)
	}
	if report, err := n3.Store.Verify(t.Context(), nil, nil); err != nil || len(report.Problems) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// TestUploadKilled: daemons that die at any change that the leader makes to the store, and come back, lose no part of a
// checkpoint.
func TestUploadKilled(t *testing.T) {
	for at := 1; ; at++ {
		l := newLab(t)
		dirs := [2]string{t.TempDir() + "/s", t.TempDir() + "/s"}
		l.openStore(l.storeBackend()) // makes it
		fault := storetest.NewFault(l.storeBackend(), at, storetest.After)
		n1 := l.bootNode("n1", dirs[0], fault)
		l.bootNode("n2", dirs[1], nil)
		up := l.stageCheckpoint(1, true)
		b := &uploadRun{upload: *up}
		err := n1.tryUpload(t.Context(), b)
		l.killNode("n1")
		if at%2 == 0 {
			l.killNode("n2")
			l.bootNode("n2", dirs[1], nil)
		}
		n1 = l.bootNode("n1", dirs[0], nil)
		noError(t, n1.Resume())
		if lost, err := l.awaitRestore(l.nodes["n2"], time.Minute); lost != nil || err != nil {
			t.Fatalf("step %d: wait for the upload: lost %+v, error %v", at, lost, err)
		}
		l.checkStored(1)
		if err == nil {
			if at < 8 {
				t.Fatalf("only %d steps", at)
			}
			return
		}
	}
}

// TestUploadAbandoned: no part of a job's checkpoint comes to the store after its checkpoints were deleted.
func TestUploadAbandoned(t *testing.T) {
	l := newLab(t)
	n1, _, n3 := l.bootNode("n1", t.TempDir()+"/s", nil), l.bootNode("n2", t.TempDir()+"/s", nil), l.bootNode("n3", t.TempDir()+"/s", nil)
	n1.rate.setRate(1 << 20)
	n1.Start(l.stageCheckpoint(1, true), nil)
	noError(t, n3.Abandon(t.Context(), 7))
	noError(t, n1.Wait(t.Context(), 7, func() {}))
	if got := l.storedNumbers(); len(got) != 0 {
		t.Errorf("checkpoints in the store: %v", got)
	}
	l.waitUntilEmpty(n1)
}

// TestUploadReplaced: a newer checkpoint takes the place of a checkpoint on its way.
func TestUploadReplaced(t *testing.T) {
	l := newLab(t)
	n1, _, n3 := l.bootNode("n1", t.TempDir()+"/s", nil), l.bootNode("n2", t.TempDir()+"/s", nil), l.bootNode("n3", t.TempDir()+"/s", nil)
	n1.rate.setRate(100 << 10) // the first would take long
	n1.Start(l.stageCheckpoint(1, false), nil)
	n1.mu.Lock()
	first := n1.active[7]
	n1.mu.Unlock()
	second := l.stageCheckpoint(2, true)
	n1.Start(second, nil)
	<-first.done
	n1.rate.setRate(0)
	if lost, err := l.awaitRestore(n3, time.Minute); lost != nil || err != nil {
		t.Fatalf("wait for the upload: lost %+v, error %v", lost, err)
	}
	if got := fmt.Sprint(l.storedNumbers()); got != "[2]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	l.checkStored(2)
}

// TestUnneededShares: a share that never came to count goes at some age, a share that counts
// stays.
func TestUnneededShares(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir() + "/s"
	n1 := l.bootNode("n1", dir, nil)
	l.bootNode("n2", t.TempDir()+"/s", nil)
	l.writeShare(n1, 1, l.image[0])
	l.stageCheckpoint(2, true)
	left := func() string {
		noError(t, n1.DropUnneededShares())
		all, err := n1.Stage.List(nil)
		noError(t, err)
		var ids []string
		for _, s := range all {
			ids = append(ids, s.ID.String())
		}
		return strings.Join(ids, " ")
	}
	if got := left(); got != "mini/7/1 mini/7/2" {
		t.Errorf("while both are young: %s", got)
	}
	then := time.Now().Add(-2 * shareGrace)
	for _, share := range []string{"mini.7.1", "mini.7.2"} {
		noError(t, os.Chtimes(filepath.Join(dir, share), then, then))
	}
	if got := left(); got != "mini/7/2" {
		t.Errorf("when both are old: %s", got)
	}
}
