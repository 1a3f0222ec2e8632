// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// StreamSink writes files into streams of a node's share, under a prefix.
type StreamSink struct {
	Writer ShareWriter
	Prefix string
}

// Create creates the stream of a file.
func (s StreamSink) Create(name string) (io.WriteCloser, error) {
	return s.Writer.Create(s.Prefix + name)
}

// BaseSink is a StreamSink that takes streams of files over from a base.
type BaseSink struct {
	StreamSink
	Base *Base
}

// Keep implements files.Keeper.
func (s BaseSink) Keep(ctx context.Context, name string) error {
	return s.Base.CarryStreams(ctx, s.Prefix, []string{name})
}

// StreamSource reads the streams that a StreamSink has written of a capsule.
type StreamSource struct {
	Reader  *store.Reader
	Capsule *records.CapsuleMeta
	Prefix  string
}

// Open opens the stream of a file.
func (s StreamSource) Open(name string) (io.ReadCloser, error) {
	return s.Reader.Stream(s.Capsule.StreamID(s.Prefix + name))
}
