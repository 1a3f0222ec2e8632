// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// lab is a shared folder and conductors of nodes that reach each other; each node has a
// stage. Slurm is away, and there are no capsules.
type lab struct {
	t      *testing.T
	shared string
	key    store.Key
	image  [2][]byte

	mu    sync.Mutex
	nodes map[string]*Conductor
}

func newLab(t *testing.T) *lab {
	key, err := store.NewKey(bytes.Repeat([]byte("key "), 8))
	noError(t, err)
	im := storetest.NewImage(1, 400)
	l := &lab{t: t, shared: t.TempDir(), key: key, nodes: map[string]*Conductor{}}
	l.image = [2][]byte{im.Bytes(), im.Touch(7, 50).Bytes()}
	noError(t, os.Mkdir(filepath.Join(l.shared, "store"), 0o700))
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
func (l *lab) bootNode(node, dir string, be store.Backend) *Conductor {
	l.t.Helper()
	if be == nil {
		be = l.storeBackend()
	}
	noError(l.t, os.MkdirAll(dir, 0o700))
	stage, err := stage.Open(dir, 0)
	noError(l.t, err)
	c, err := New(Config{Node: node, Cluster: "mini", Lib: l.t.TempDir(), Shared: l.shared, RestorePatience: time.Second, Retention: store.Retention{Count: 2}},
		Deps{Slurm: slurm.New("false"), Store: l.openStore(be), Stage: stage, Remote: l, Log: slog.New(slog.DiscardHandler)})
	noError(l.t, err)
	l.t.Cleanup(c.Close)
	l.mu.Lock()
	l.nodes[node] = c
	l.mu.Unlock()
	return c
}

// Call implements NodeCaller.
func (l *lab) Call(ctx context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	l.mu.Lock()
	c := l.nodes[node]
	l.mu.Unlock()
	if c == nil {
		return nil, ErrAway
	}
	return c.Call(ctx, req)
}

func (l *lab) checkpointID(number uint32) store.ID {
	return store.ID{JobID: store.PlainJob("mini", 7), Number: number}
}

// runOf is a run of a job that runs.
func runOf(number int, rec *records.Record) runs.Run {
	return runs.NewRunAt(runs.Snapshot{Number: number, Record: rec, State: runs.Running})
}
