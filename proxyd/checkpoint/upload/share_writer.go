// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"io"
	"io/fs"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ShareWriter takes a node's share of a checkpoint while the job is frozen: in the store, or in
// the node's stage. Streams may be created and written concurrently.
type ShareWriter interface {
	Create(name string) (io.WriteCloser, error)
	// OpenBase opens a checkpoint in the store. The returned function takes a stream that this
	// node wrote there over into the share, by name.
	OpenBase(ctx context.Context, id store.ID) (*store.Manifest, func(ctx context.Context, name string) error, error)
	// Finish ends the share of a node that does not lead. It returns nil for a share that stays
	// in the node's stage.
	Finish(ctx context.Context) (*store.NodeStreams, error)
	// Commit ends the leader's share and the checkpoint, with the parts that Finish returned on
	// other nodes.
	Commit(ctx context.Context, meta []byte, parts []store.NodeStreams) error
	// Abort drops a share that was neither ended nor aborted before. It may be called during writes, which then fail.
	Abort(ctx context.Context) error
}

// StoreShare is a share that is written into the store.
type StoreShare struct {
	*store.Writer
	Node string // which writes the share
}

// Create implements ShareWriter.
func (o StoreShare) Create(name string) (io.WriteCloser, error) { return createStream(o.Writer, name) }

// Finish implements ShareWriter.
func (o StoreShare) Finish(ctx context.Context) (*store.NodeStreams, error) {
	part, err := o.Writer.Finish(ctx)
	return &part, err
}

// Commit implements ShareWriter.
func (o StoreShare) Commit(ctx context.Context, meta []byte, parts []store.NodeStreams) error {
	_, err := o.Writer.Commit(ctx, meta, parts...)
	return err
}

// StageShare is a share that is written into the node's stage.
type StageShare struct {
	*stage.Share
	Node  string // which writes the share
	Store *store.Store
}

// Finish implements ShareWriter.
func (o StageShare) Finish(context.Context) (*store.NodeStreams, error) {
	return nil, o.Share.Commit(nil)
}

// Commit implements ShareWriter.
func (o StageShare) Commit(_ context.Context, meta []byte, _ []store.NodeStreams) error {
	return o.Share.Commit(meta)
}

// Abort implements ShareWriter.
func (o StageShare) Abort(context.Context) error { return o.Share.Abort() }

// OpenBase implements ShareWriter.
func (o StoreShare) OpenBase(ctx context.Context, id store.ID) (*store.Manifest, func(context.Context, string) error, error) {
	b, err := o.Base(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return b.Manifest(), func(ctx context.Context, name string) error {
		return b.Carry(ctx, OwnStream(o.Node, name), store.None, name)
	}, nil
}

// OpenBase implements ShareWriter.
func (o StageShare) OpenBase(ctx context.Context, id store.ID) (*store.Manifest, func(context.Context, string) error, error) {
	r, err := o.Store.Open(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	m := r.Manifest()
	return m, func(_ context.Context, name string) error {
		if m.Stream(OwnStream(o.Node, name)) == nil {
			return fs.ErrNotExist
		}
		return o.Carry(name, id)
	}, nil
}

// OwnStream names a stream that a node wrote.
func OwnStream(node, name string) store.StreamID {
	return store.StreamID{Node: node, Rank: store.None, Name: name}
}

// createStream creates a stream in the store. Streams of device blocks are split at the blocks'
// length, so that equal blocks are stored once.
func createStream(w *store.Writer, name string) (*store.Stream, error) {
	if _, file, _ := strings.Cut(name, "/"+records.DevicesFolder+"/"); strings.HasPrefix(file, server.BlocksPrefix) {
		return w.Blocks(store.None, name, server.BlockLength)
	}
	return w.Stream(store.None, name)
}
