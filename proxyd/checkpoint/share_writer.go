// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// shareWriter takes a node's share of a checkpoint while the job is frozen: in the store, or in
// the node's stage. Streams may be created and written concurrently.
type shareWriter interface {
	Create(name string) (io.WriteCloser, error)
	// openBase opens a checkpoint in the store. The returned function takes a stream that this
	// node wrote there over into the share, by name.
	openBase(ctx context.Context, c *Conductor, id store.ID) (*store.Manifest, func(ctx context.Context, name string) error, error)
	// finish ends the share of a node that does not lead. It returns nil for a share that stays
	// in the node's stage.
	finish(ctx context.Context) (*store.Part, error)
	// commit ends the leader's share and the checkpoint, with the parts that finish returned on
	// other nodes.
	commit(ctx context.Context, meta []byte, parts []store.Part) error
	// Abort drops a share that has not ended otherwise; else it does nothing. It may be called
	// during writes, which then fail.
	Abort(ctx context.Context) error
}

type storeShare struct{ *store.Writer }

func (o storeShare) Create(name string) (io.WriteCloser, error) { return createStream(o.Writer, name) }

func (o storeShare) finish(ctx context.Context) (*store.Part, error) {
	part, err := o.Finish(ctx)
	return &part, err
}

func (o storeShare) commit(ctx context.Context, meta []byte, parts []store.Part) error {
	_, err := o.Commit(ctx, meta, parts...)
	return err
}

type stageShare struct{ *stage.Share }

func (o stageShare) finish(context.Context) (*store.Part, error) { return nil, o.Commit(nil) }

func (o stageShare) commit(_ context.Context, meta []byte, _ []store.Part) error {
	return o.Commit(meta)
}

func (o stageShare) Abort(context.Context) error { return o.Share.Abort() }
