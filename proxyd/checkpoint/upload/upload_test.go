// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// lab is a shared folder and nodes with uploads that reach each other; each node has a stage.
type lab struct {
	t      *testing.T
	shared string
	key    store.Key
	image  [2][]byte

	mu    sync.Mutex
	nodes map[string]*node
}

// node is a node's uploads, with as much of a conductor as they need.
type node struct {
	*Uploads
	l      *lab
	keep   store.Retention
	stored chan store.ID // nil: not asked for
	cancel context.CancelFunc
}

var errAway = errors.New("proxyd does not answer")

func (l *lab) nodeNamed(name string) (*node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[name]; n != nil {
		return n, nil
	}
	return nil, errAway
}

// UploadShare implements Conductor.
func (n *node) UploadShare(ctx context.Context, name string, id store.ID, ticket store.Ticket) (ShareReply, error) {
	to, err := n.l.nodeNamed(name)
	if err != nil {
		return ShareReply{}, err
	}
	return to.UploadShareHere(ctx, id, ticket)
}

// ShareStatus implements Conductor.
func (n *node) ShareStatus(_ context.Context, name string, id store.ID) (ShareStatus, error) {
	to, err := n.l.nodeNamed(name)
	if err != nil {
		return ShareStatus{}, err
	}
	return to.ShareStatusHere(id)
}

// DropShare implements Conductor.
func (n *node) DropShare(_ context.Context, name string, id store.ID) error {
	to, err := n.l.nodeNamed(name)
	if err != nil {
		return err
	}
	return to.DropShareHere(id)
}

// AddUploadEvent implements Conductor.
func (n *node) AddUploadEvent(*Record, string, string) {}

// WriteComment implements Conductor.
func (n *node) WriteComment(context.Context, string, string) error { return nil }

// ReportStored implements Conductor.
func (n *node) ReportStored(id store.ID) {
	if n.stored != nil {
		n.stored <- id
	}
}

// IsCapturing implements Conductor.
func (n *node) IsCapturing(store.ID) bool { return false }

// DeleteExpired implements Conductor.
func (n *node) DeleteExpired(ctx context.Context, job uint32) error {
	id := n.storeJob(job)
	all, err := n.Store.List(ctx, &id)
	keep := n.keep
	keep.Needs = n.IsNeededAsBase
	for _, old := range keep.Expired(time.Now(), all) {
		err = errors.Join(err, n.deleteUnlessBase(ctx, old))
	}
	return err
}

func (n *node) deleteUnlessBase(ctx context.Context, id store.ID) error {
	return n.UnlessBase(id, func() error { return n.Store.Delete(ctx, id) })
}

func newLab(t *testing.T) *lab {
	key, err := store.NewKey(bytes.Repeat([]byte("key "), 8))
	noError(t, err)
	im := storetest.NewImage(1, 400)
	l := &lab{t: t, shared: t.TempDir(), key: key, nodes: map[string]*node{}}
	l.image = [2][]byte{im.Bytes(), im.Touch(7, 50).Bytes()}
	noError(t, errors.Join(os.Mkdir(filepath.Join(l.shared, "store"), 0o700), os.Mkdir(filepath.Join(l.shared, "jobs"), 0o700)))
	return l
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) openStore(be store.Backend) *store.Store {
	s, err := store.Open(context.Background(), be, l.key, store.Options{Lanes: 1, Workers: 1})
	noError(l.t, err)
	l.t.Cleanup(s.Close)
	return s
}

func (l *lab) storeBackend() *posix.Backend {
	be, err := posix.Open(filepath.Join(l.shared, "store"))
	noError(l.t, err)
	l.t.Cleanup(func() { be.Close() })
	return be
}

// bootNode starts a node's daemon with the stage in dir, and the store in be or the lab's own.
func (l *lab) bootNode(name, dir string, be store.Backend) *node {
	l.t.Helper()
	if be == nil {
		be = l.storeBackend()
	}
	noError(l.t, os.MkdirAll(dir, 0o700))
	stage, err := stage.Open(dir, 0)
	noError(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{l: l, keep: store.Retention{Count: 2}, cancel: cancel}
	n.Uploads = New(ctx, Config{
		Node: name, Cluster: "mini", Dir: filepath.Join(l.shared, "jobs"), Store: l.openStore(be), Stage: stage, Conductor: n, Log: slog.New(slog.DiscardHandler),
	})
	l.t.Cleanup(func() { n.cancel(); n.Close() })
	l.mu.Lock()
	l.nodes[name] = n
	l.mu.Unlock()
	return n
}

func (l *lab) killNode(name string) {
	l.mu.Lock()
	n := l.nodes[name]
	delete(l.nodes, name)
	l.mu.Unlock()
	n.cancel()
	n.Close()
}

func (l *lab) checkpointID(number uint32) store.ID {
	return store.ID{JobID: store.JobID{Cluster: "mini", Job: 7, ArrayTask: store.None, Component: store.None}, Number: number}
}

// stageCheckpoint makes a checkpoint of n1 and n2 that counts and is in their stages.
func (l *lab) stageCheckpoint(number uint32, left bool) *Record {
	l.t.Helper()
	for i, node := range []string{"n1", "n2"} {
		l.writeShare(l.nodes[node], number, l.image[i])
	}
	up := &Record{Job: 7, Number: number, Made: time.Now().UTC(), Slurm: "7", Submitted: "then", Reason: "requeue",
		Leader: "n1", Nodes: []string{"n1", "n2"}, Bytes: 1 << 20, Released: left}
	noError(l.t, l.nodes["n1"].folder.saveRecord(up))
	return up
}

func (l *lab) writeShare(c *node, number uint32, data []byte) {
	l.t.Helper()
	h, err := c.Stage.Create(l.checkpointID(number))
	noError(l.t, err)
	f, err := h.Create("0/batch/pages-1.img")
	noError(l.t, err)
	_, err = f.Write(data)
	noError(l.t, errors.Join(err, f.Close()))
	noError(l.t, h.Commit([]byte("meta of "+c.Node)))
}

// checkStored checks that a checkpoint is in the store, whole, and no part of the checkpoint anywhere else.
func (l *lab) checkStored(number uint32) {
	l.t.Helper()
	r, err := l.openStore(l.storeBackend()).Open(l.t.Context(), l.checkpointID(number))
	noError(l.t, err)
	defer r.Close()
	if got := string(r.Manifest().Meta); got != "meta of n1" {
		l.t.Fatalf("meta %q", got)
	}
	for i, node := range []string{"n1", "n2"} {
		s, err := r.Stream(store.StreamID{Node: node, Rank: store.None, Name: "0/batch/pages-1.img"})
		noError(l.t, err)
		var b bytes.Buffer
		_, err = s.WriteTo(&b)
		noError(l.t, errors.Join(err, s.Close()))
		if !bytes.Equal(b.Bytes(), l.image[i]) {
			l.t.Fatalf("the stream of %s differs", node)
		}
	}
}

// storedNumbers returns the numbers of the checkpoints in the store.
func (l *lab) storedNumbers() (all []uint32) {
	l.t.Helper()
	job := l.checkpointID(1).JobID
	list, err := l.openStore(l.storeBackend()).List(l.t.Context(), &job)
	noError(l.t, err)
	for _, s := range list {
		all = append(all, s.ID.Number)
	}
	return all
}

// awaitRestore waits for a checkpoint as a restore on another node does.
func (l *lab) awaitRestore(c *node, patience time.Duration) (*Record, error) {
	return c.AwaitStoredOrLost(l.t.Context(), 7, "then", patience, func(*Record, *Watch) {})
}

// waitUntilEmpty waits until a node's stage has nothing left.
func (l *lab) waitUntilEmpty(c *node) {
	l.t.Helper()
	for range 200 {
		all, err := c.Stage.List(nil)
		noError(l.t, err)
		if len(all) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Fatalf("the stage of %s is not empty", c.Node)
}

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

// TestUploadKilled: daemons that die at any change that the leader makes to the store, and
// come back, lose nothing.
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

// TestUploadShareGone: what a node has lost is noticed at once, said in the record, and
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
				t.Fatal(lost, err)
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

// TestUploadAbandoned: nothing of a job arrives after its checkpoints were deleted.
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

// TestUploadWatch is a transcript of what a restore sees, and when the restore gives up.
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
