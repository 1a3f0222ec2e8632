// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestUploadShareGone: the loss of a node's share is noticed at once and written to the record, and the checkpoint
// never comes to the store.
func TestUploadShareGone(t *testing.T) {
	for _, node := range []string{"n1", "n2"} {
		t.Run(node, func(t *testing.T) {
			l := newLab(t)
			dir := t.TempDir()
			n1, _, n3 := l.bootNode("n1", dir+"/n1", nil), l.bootNode("n2", dir+"/n2", nil), l.bootNode("n3", dir+"/n3", nil)
			old := l.stageCheckpoint(1, false)
			n1.Start(old, nil)
			if lost, err := l.awaitRestore(n3, time.Minute); lost != nil || err != nil {
				t.Fatalf("awaitRestore of a whole upload = %v, %v; want no loss", lost, err)
			}
			noError(t, n1.Wait(t.Context(), 7, func() {}))
			l.stageCheckpoint(2, true)
			l.killNode(node)
			l.bootNode(node, dir+"/"+node+"-after-a-reboot", nil)
			noError(t, l.nodes["n1"].Resume())
			began := time.Now()
			lost, err := l.awaitRestore(n3, time.Hour)
			if err != nil || lost == nil || lost.Number != 2 || !strings.Contains(lost.Lost, node) {
				t.Fatalf("wait for the upload: lost %+v, error %v", lost, err)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the loss was noticed after %s", d)
			}
			if got := fmt.Sprint(l.storedNumbers()); got != "[1]" {
				t.Errorf("checkpoints in the store: %s", got)
			}
		})
	}
}

// TestUploadOverMeanwhile: a restore that has read the record of an upload, and asks the nodes when the
// leader has ended the upload and dropped its shares, takes a dropped share for no loss of its own.
func TestUploadOverMeanwhile(t *testing.T) {
	start := func(t *testing.T) (l *lab, leader, restorer *node, up *Record) {
		l = newLab(t)
		leader = l.bootNode("n1", t.TempDir()+"/s", nil)
		l.bootNode("n2", t.TempDir()+"/s", nil)
		return l, leader, l.bootNode("n3", t.TempDir()+"/s", nil), l.stageCheckpoint(1, true)
	}
	t.Run("lost", func(t *testing.T) {
		l, leader, restorer, up := start(t)
		l.killNode("n2")
		l.bootNode("n2", t.TempDir()+"/after-a-reboot", nil)
		restorer.beforeShareStatus = func() {
			leader.Start(up, nil)
			l.waitUntilEmpty(leader)
		}
		lost, err := l.awaitRestore(restorer, time.Hour)
		if err != nil || lost == nil || !strings.Contains(lost.Lost, "n2") {
			t.Errorf("wait for the upload: lost %+v, error %v; want a loss of n2", lost, err)
		}
		if len(leader.events) != 1 || len(restorer.events) != 0 {
			t.Errorf("events of the leader %q, of the node that restores %q; want one loss, by the leader", leader.events, restorer.events)
		}
	})
	t.Run("stored", func(t *testing.T) {
		l, leader, restorer, up := start(t)
		restorer.beforeShareStatus = func() {
			leader.Start(up, nil)
			l.waitUntilEmpty(leader)
		}
		if lost, err := l.awaitRestore(restorer, time.Hour); lost != nil || err != nil {
			t.Errorf("wait for the upload: lost %+v, error %v", lost, err)
		}
		if len(restorer.events) != 0 {
			t.Errorf("events of the node that restores: %q, of a checkpoint that is in the store", restorer.events)
		}
	})
}

// TestUploadGivenUp: a node that is away is waited for with patience; when the node comes back
// later, its checkpoint stays given up, and a newer checkpoint of its run is not touched.
func TestUploadGivenUp(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	l.bootNode("n1", dir+"/n1", nil)
	l.bootNode("n2", dir+"/n2", nil)
	n3 := l.bootNode("n3", dir+"/n3", nil)
	l.stageCheckpoint(1, true)
	l.killNode("n1")
	lost, err := l.awaitRestore(n3, 3*time.Second)
	if err != nil || lost == nil || !strings.Contains(lost.Lost, "n1") {
		t.Fatalf("wait for the upload: lost %+v, error %v", lost, err)
	}
	n1 := l.bootNode("n1", dir+"/n1", nil)
	noError(t, n1.Resume())
	noError(t, n1.Wait(t.Context(), 7, func() {}))
	if got := l.storedNumbers(); len(got) != 0 {
		t.Errorf("checkpoints in the store: %v", got)
	}
	if again, err := l.awaitRestore(n3, time.Hour); err != nil || !lost.IsSame(again) {
		t.Errorf("a second restore: %+v, %v", again, err)
	}
}

// TestUploadFenced: of an upload that is at work and a restore that gives the upload up, only the first wins:
// either the checkpoint is there, or never will be.
func TestUploadFenced(t *testing.T) {
	for round := range 12 {
		l := newLab(t)
		n1, _, n3 := l.bootNode("n1", t.TempDir()+"/s", nil), l.bootNode("n2", t.TempDir()+"/s", nil), l.bootNode("n3", t.TempDir()+"/s", nil)
		up := l.stageCheckpoint(1, true)
		n1.Start(up, nil)
		time.Sleep(time.Duration(round) * 15 * time.Millisecond) // any moment of the upload
		noError(t, n3.markUploadLost(t.Context(), up, "the patience is over"))
		lost, err := l.awaitRestore(n3, time.Hour)
		noError(t, err)
		was := l.storedNumbers()
		if (lost == nil) != (len(was) == 1) {
			t.Fatalf("lost %+v, in the store %v", lost, was)
		}
		noError(t, n1.Wait(t.Context(), 7, func() {}))
		if now := l.storedNumbers(); len(now) != len(was) {
			t.Fatalf("the upload was committed after it was declared lost")
		}
		l.waitUntilEmpty(n1)
	}
}

// TestUploadWatch is a transcript of the node states that a restore sees, and of the moment when it gives up.
func TestUploadWatch(t *testing.T) {
	has := func(done int64, why string) ShareStatus {
		return ShareStatus{Has: true, Done: done, Total: 100, LastError: why}
	}
	w := Watch{patience: time.Minute}
	for i, step := range []struct {
		at     int // seconds
		n1, n2 *ShareStatus
		says   string
		gives  string // up
	}{
		{at: 0, n1: &ShareStatus{Has: true}, n2: &ShareStatus{Has: true}, says: "from n1,n2"},
		{at: 9, n1: pointerTo(has(10, "")), n2: pointerTo(has(0, "")), says: "from n1,n2 (5%)"},
		{at: 10, n1: pointerTo(has(10, "")), says: "(10%): proxyd does not answer"},
		{at: 69, n1: pointerTo(has(10, "")), says: "(10%): proxyd does not answer"},
		{at: 70, n1: pointerTo(has(10, "")), n2: pointerTo(has(0, "")), says: "(5%)"}, // just in time
		{at: 71, n1: pointerTo(has(10, ""))},
		{at: 100, n2: pointerTo(has(0, ""))}, // the other
		{at: 131, n1: pointerTo(has(10, "")), n2: pointerTo(has(5, "no space")), says: "(7%): no space"},
		{at: 9999, n1: pointerTo(has(10, "")), n2: pointerTo(has(5, "no space")), says: "(7%): no space"},
		{at: 10000, n1: pointerTo(has(10, ""))},
		{at: 10061, n1: pointerTo(has(99, "")), gives: "node n2, which has a part of it, does not answer: proxyd does not answer"},
		{at: 10062, n1: &ShareStatus{}, n2: pointerTo(has(100, "")), gives: "node n1 has its part of it no more"},
	} {
		var sights []nodeStatus
		for node, r := range map[string]*ShareStatus{"n1": step.n1, "n2": step.n2} {
			s := nodeStatus{node: node, err: errAway}
			if r != nil {
				s.reply, s.err = *r, nil
			}
			sights = append(sights, s)
		}
		if got := w.lossReason(time.Unix(int64(step.at), 0), sights); got != step.gives {
			t.Errorf("step %d: lost because %q, want %q", i, got, step.gives)
		}
		if got := w.Describe(&Record{Number: 4, Nodes: []string{"n1", "n2"}}); step.gives == "" && !strings.HasSuffix(got, step.says) {
			t.Errorf("step %d: comment %q, want %q", i, got, step.says)
		}
	}
	w.patience = 0
	if why := w.lossReason(time.Unix(1e9, 0), []nodeStatus{{node: "n2", err: errAway}}); why != "" {
		t.Errorf("patience without bound: lost because %s", why)
	}
}

func pointerTo[T any](v T) *T { return &v }
