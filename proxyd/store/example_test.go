// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// A checkpoint is written, committed and read back. Before Commit the checkpoint does not exist.
func Example() {
	folder, err := os.MkdirTemp("", "store-example-")
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(useStore(folder), os.RemoveAll(folder)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// committed hpc/812/1
	// made for: an example
	// n1/node/batch/pages-1.img: 3000000 bytes
}

func useStore(folder string) error {
	backend, err := posix.Create(folder)
	if err != nil {
		return err
	}
	key, err := store.NewKey(bytes.Repeat([]byte("secret"), 6)) // on a cluster, KeyFile reads the site's key
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := store.Open(ctx, backend, key, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()

	id, err := writeCheckpoint(ctx, s)
	if err != nil {
		return err
	}
	fmt.Println("committed", id)

	r, err := s.Open(ctx, id)
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Printf("made for: %s\n", r.Manifest().Meta)
	for _, stream := range r.Manifest().Streams {
		in, err := r.Stream(stream.StreamID)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", stream.StreamID, len(content))
	}
	return nil
}

// writeCheckpoint does the work of a job's leader. Other nodes would Join with the Writer's Ticket.
func writeCheckpoint(ctx context.Context, s *store.Store) (store.ID, error) {
	job := store.JobID{Cluster: "hpc", Job: 812, ArrayTask: store.None, Component: store.None}
	w, err := s.Create(ctx, store.Upload{ID: store.ID{JobID: job, Number: 1}, Node: "n1"})
	if err != nil {
		return store.ID{}, err
	}
	stream, err := w.Stream(store.None, "batch/pages-1.img")
	if err == nil {
		_, err = stream.Write(make([]byte, 3_000_000))
	}
	if err == nil {
		err = stream.Close()
	}
	if err != nil {
		_ = w.Abort(ctx)
		return store.ID{}, err
	}
	return w.Commit(ctx, []byte("an example"))
}
