// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// shareWriter is where a node's share of a checkpoint goes while the job stands still: the
// store, or the node's stage. Streams may be made and written concurrently.
type shareWriter interface {
	Create(name string) (io.WriteCloser, error)
	// openBase opens a checkpoint that is in the store. What is returned makes a stream that it has of
	// this node one of the share, by its name.
	openBase(ctx context.Context, c *Conductor, id store.ID) (*store.Manifest, func(ctx context.Context, name string) error, error)
	// finish ends the share of a node that does not lead. What it returns is nil for a share
	// that stays on the node.
	finish(ctx context.Context) (*store.Part, error)
	// commit ends the leader's, with what the others have returned.
	commit(ctx context.Context, meta []byte, parts []store.Part) error
	// Abort ends a share that did not end otherwise; else it does nothing. It may be called
	// while others write, who then fail.
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
