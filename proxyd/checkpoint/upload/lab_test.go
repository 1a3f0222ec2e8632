// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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

	beforeShareStatus func() // nil, or called once, before this node asks for the first time
	askFirst          sync.Once
	events            []string // that this node has added
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
	if n.beforeShareStatus != nil {
		n.askFirst.Do(n.beforeShareStatus)
	}
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
func (n *node) AddUploadEvent(_ *Record, kind, text string) {
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	n.events = append(n.events, kind+": "+text)
}

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
	id := store.PlainJob(n.Cluster, job)
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
	return store.ID{JobID: store.PlainJob("mini", 7), Number: number}
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

// waitUntilEmpty waits until a node's stage is empty.
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
