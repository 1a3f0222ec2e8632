// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// outlet is where a node's share of a checkpoint goes while the job stands still: the
// store, or the node's stage. Streams may be made and written concurrently.
type outlet interface {
	Create(name string) (io.WriteCloser, error)
	// base opens a checkpoint that is in the store. What is returned makes a stream that it has of
	// this node one of the share, by its name.
	base(ctx context.Context, c *Conductor, id store.ID) (*store.Manifest, func(ctx context.Context, name string) error, error)
	// finish ends the share of a node that does not lead. What it returns is nil for a share
	// that stays on the node.
	finish(ctx context.Context) (*store.Part, error)
	// commit ends the leader's, with what the others have returned.
	commit(ctx context.Context, meta []byte, parts []store.Part) error
	// Abort ends a share that did not end otherwise; else it does nothing. It may be called
	// while others write, who then fail.
	Abort(ctx context.Context) error
}

type toStore struct{ *store.Writer }

func (o toStore) Create(name string) (io.WriteCloser, error) { return begin(o.Writer, name) }

func (o toStore) finish(ctx context.Context) (*store.Part, error) {
	part, err := o.Finish(ctx)
	return &part, err
}

func (o toStore) commit(ctx context.Context, meta []byte, parts []store.Part) error {
	_, err := o.Commit(ctx, meta, parts...)
	return err
}

type toStage struct{ *stage.Share }

func (o toStage) finish(context.Context) (*store.Part, error) { return nil, o.Commit(nil) }

func (o toStage) commit(_ context.Context, meta []byte, _ []store.Part) error { return o.Commit(meta) }

func (o toStage) Abort(context.Context) error { return o.Share.Abort() }
