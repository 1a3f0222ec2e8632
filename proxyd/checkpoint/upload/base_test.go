// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// stagedOn is a staged checkpoint, with all of an earlier checkpoint and a further stream.
func (l *lab) stagedOn(number, on uint32) *Record {
	l.t.Helper()
	for _, node := range []string{"n1", "n2"} {
		c := l.nodes[node]
		h, err := c.Stage.Create(l.checkpointID(number))
		noError(l.t, err)
		noError(l.t, h.Carry("0/batch/pages-1.img", l.checkpointID(on)))
		f, err := h.Create("0/devices/blocks-2-0")
		noError(l.t, err)
		_, err = f.Write(l.image[0])
		noError(l.t, errors.Join(err, f.Close(), h.Commit([]byte("meta of "+node))))
	}
	up := &Record{Job: 7, Number: number, Made: time.Now().UTC(), Slurm: "7", Submitted: "then", Reason: "periodic",
		Leader: "n1", Nodes: []string{"n1", "n2"}, Bytes: 1 << 20, Base: on}
	noError(l.t, l.nodes["n1"].folder.saveRecord(up))
	return up
}

// endUpload has an upload end well.
func (l *lab) endUpload(up *Record) {
	l.t.Helper()
	n1 := l.nodes["n1"]
	n1.Start(up, nil)
	if lost, err := l.awaitRestore(n1, time.Minute); lost != nil || err != nil {
		l.t.Fatalf("wait for the upload: lost %+v, error %v", lost, err)
	}
	noError(l.t, n1.Wait(l.t.Context(), 7, func() {}))
	l.checkStored(up.Number)
}

// TestIncrementalUpload: a staged checkpoint that has streams of another in the store arrives whole, and stays so when the other is gone. While
// the checkpoint is on its way, no rule deletes its base.
func TestIncrementalUpload(t *testing.T) {
	l := newLab(t)
	n1, n2 := l.bootNode("n1", t.TempDir()+"/s", nil), l.bootNode("n2", t.TempDir()+"/s", nil)
	l.endUpload(l.stageCheckpoint(1, false))
	l.commitCheckpoint(n1, 2) // as if this checkpoint came in between
	up := l.stagedOn(3, 1)
	n1.keep.Count = 1
	if !n2.IsNeededAsBase(l.checkpointID(1)) || n2.IsNeededAsBase(l.checkpointID(2)) || n2.IsNeededAsBase(l.checkpointID(3)) {
		t.Error("the base is not reported as needed")
	}
	noError(t, n1.DeleteExpired(t.Context(), 7))
	if got := fmt.Sprint(l.storedNumbers()); got != "[1 2]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	n1.Start(up, nil)
	noError(t, n1.Wait(t.Context(), 7, func() {}))
	if got := fmt.Sprint(l.storedNumbers()); got != "[3]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	if n2.IsNeededAsBase(l.checkpointID(1)) {
		t.Error("the base is reported as needed after the upload")
	}
	for range 3 {
		_, err := n2.Store.GC(t.Context(), store.Policy{}, nil, false)
		noError(t, err)
	}
	l.checkStored(3)
	if report, err := n2.Store.Verify(t.Context(), nil, nil); err != nil || len(report.Problems) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// TestExpiredBase: an expired checkpoint stays if newer checkpoints use that as a base by now.
func TestExpiredBase(t *testing.T) {
	l := newLab(t)
	n1 := l.bootNode("n1", t.TempDir()+"/s", nil)
	l.bootNode("n2", t.TempDir()+"/s", nil)
	l.endUpload(l.stageCheckpoint(1, false))
	l.stagedOn(3, 1)
	noError(t, n1.deleteUnlessBase(t.Context(), l.checkpointID(1)))
	if got := fmt.Sprint(l.storedNumbers()); got != "[1]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
	noError(t, n1.folder.removeAll(7))
	noError(t, n1.deleteUnlessBase(t.Context(), l.checkpointID(1)))
	if got := fmt.Sprint(l.storedNumbers()); got != "[]" {
		t.Errorf("checkpoints in the store: %s", got)
	}
}

// TestPledge: an upload replaces the previous upload when the new one is known to be whole. Until then the job has the
// previous upload, even if a daemon dies, and the base of the new upload stays.
func TestPledge(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir() + "/s"
	n1, n2 := l.bootNode("n1", dir, nil), l.bootNode("n2", t.TempDir()+"/s", nil)
	before := l.stageCheckpoint(2, false)
	up := *before
	up.Number, up.Base = 3, 1
	pledged := func(after error) {
		t.Helper()
		err := n1.folder.savePledged(&up, func() error {
			if now, err := n2.folder.loadRecord(7); err != nil || !before.IsSame(now) || !n2.IsNeededAsBase(l.checkpointID(1)) {
				t.Errorf("while pledged: upload %+v, error %v, base needed: %v", now, err, n2.IsNeededAsBase(l.checkpointID(1)))
			}
			return after
		})
		if !errors.Is(err, after) {
			t.Error(err)
		}
	}
	pledged(ErrBaseUnusable)
	if now, err := n2.folder.loadRecord(7); err != nil || !before.IsSame(now) || n2.IsNeededAsBase(l.checkpointID(1)) {
		t.Errorf("after a pledge without its base: upload %+v, error %v", now, err)
	}
	pledged(nil)
	if now, err := n2.folder.loadRecord(7); err != nil || !up.IsSame(now) || !n2.IsNeededAsBase(l.checkpointID(1)) {
		t.Errorf("after the pledge: upload %+v, error %v", now, err)
	}
	noError(t, n1.folder.removeAll(7))

	noError(t, records.WriteJSON(n1.folder.recordPath(7, pledgeSuffix), &up)) // and then its leader died
	if !n2.IsNeededAsBase(l.checkpointID(1)) {
		t.Error("the base of a pledge is not reported as needed")
	}
	l.killNode("n1")
	noError(t, n2.Resume())
	if !n2.IsNeededAsBase(l.checkpointID(1)) {
		t.Error("removed the pledge of another node")
	}
	noError(t, l.bootNode("n1", dir, nil).Resume())
	if n2.IsNeededAsBase(l.checkpointID(1)) {
		t.Error("the pledge of a killed daemon stays")
	}
}

// TestIncrementalUploadKilled is TestUploadKilled for such a checkpoint.
func TestIncrementalUploadKilled(t *testing.T) {
	for at := 1; ; at += 3 {
		l := newLab(t)
		dirs := [2]string{t.TempDir() + "/s", t.TempDir() + "/s"}
		l.bootNode("n1", dirs[0], nil)
		l.bootNode("n2", dirs[1], nil)
		l.endUpload(l.stageCheckpoint(1, false))
		up := l.stagedOn(2, 1)
		l.killNode("n1")
		n1 := l.bootNode("n1", dirs[0], storetest.NewFault(l.storeBackend(), at, storetest.After))
		err := n1.tryUpload(t.Context(), &uploadRun{upload: *up})
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
		l.checkStored(2)
		if err == nil {
			if at < 8 {
				t.Fatalf("only %d steps", at)
			}
			return
		}
	}
}

// TestUploadWithoutItsBase: if the base is deleted all the same, the checkpoint that depends on it is reported as lost,
// and no incomplete checkpoint comes to the store.
func TestUploadWithoutItsBase(t *testing.T) {
	l := newLab(t)
	n1 := l.bootNode("n1", t.TempDir()+"/s", nil)
	l.bootNode("n2", t.TempDir()+"/s", nil)
	l.endUpload(l.stageCheckpoint(1, false))
	up := l.stagedOn(2, 1)
	noError(t, n1.checkBaseStored(t.Context(), up))
	noError(t, n1.Store.Delete(t.Context(), l.checkpointID(1)))
	if err := n1.checkBaseStored(t.Context(), up); !errors.Is(err, ErrBaseUnusable) {
		t.Errorf("the deleted base is found: %v", err)
	}
	n1.Start(up, nil)
	lost, err := l.awaitRestore(n1, time.Minute)
	if err != nil || lost == nil || !strings.Contains(lost.Lost, "0/batch/pages-1.img: the previous checkpoint cannot be used as base") {
		t.Fatalf("awaitRestore without the base = %+v, %v; want a lost upload", lost, err)
	}
	if got := l.storedNumbers(); len(got) != 0 {
		t.Errorf("checkpoints in the store: %v", got)
	}
	if n1.IsNeededAsBase(l.checkpointID(1)) {
		t.Error("the base of a lost upload is reported as needed")
	}
}

func (l *lab) commitCheckpoint(c *node, number uint32) {
	l.t.Helper()
	w, err := c.Store.Create(l.t.Context(), store.Upload{ID: l.checkpointID(number), Node: c.Node})
	noError(l.t, err)
	_, err = w.Commit(l.t.Context(), []byte("meta"))
	noError(l.t, err)
}

// TestCarryStreams: an error that would also occur without the base is not attributed to the base.
func TestCarryStreams(t *testing.T) {
	var err error
	on := &Base{carry: func(context.Context, string) error { return err }}
	if on.CarryStreams(t.Context(), "3/devices/", nil) != nil || on.IsUsed() {
		t.Error("the base counts as used although no stream was taken over")
	}
	for _, tt := range []struct {
		err  error
		base bool
	}{
		{fmt.Errorf("recipe: %w", store.ErrDamaged), true},
		{syscall.EIO, true},
		{fmt.Errorf("write: %w", syscall.ENOSPC), false},
		{syscall.EDQUOT, false},
	} {
		err = tt.err
		if got := on.CarryStreams(t.Context(), "3/devices/", []string{"blocks-1-0"}); !errors.Is(got, err) || errors.Is(got, ErrBaseUnusable) != tt.base {
			t.Errorf("CarryStreams after %v: %v", tt.err, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = ctx.Err()
	if got := on.CarryStreams(ctx, "3/devices/", []string{"blocks-1-0"}); !errors.Is(got, err) || errors.Is(got, ErrBaseUnusable) {
		t.Errorf("CarryStreams with a cancelled ctx: %v", got)
	}
}
