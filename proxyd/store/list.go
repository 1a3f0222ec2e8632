// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Summary is a checkpoint as List shows it.
type Summary struct {
	ID      ID
	Created time.Time
	Nodes   []string
	Streams int
	Stats   Stats
	Err     error // why the manifest cannot be trusted; then only ID is set
}

// List returns the checkpoints of a job, or of all jobs if job is nil, sorted by ID. A checkpoint
// with a refused or damaged manifest is listed with the reason.
func (s *Store) List(ctx context.Context, job *JobID) ([]Summary, error) {
	var list []Summary
	err := s.eachID(ctx, job, func(id ID) error {
		one, err := s.readSummary(ctx, id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted just now
		case err != nil:
			return err
		}
		list = append(list, one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	slices.SortFunc(list, func(a, b Summary) int { return compareIDs(a.ID, b.ID) })
	return list, nil
}

// Newest returns the checkpoint of a job with the highest number, without reading the manifest; ok is false if the job
// has no checkpoint.
func (s *Store) Newest(ctx context.Context, job JobID) (newest ID, ok bool, err error) {
	err = s.eachID(ctx, &job, func(id ID) error {
		if !ok || id.Number > newest.Number {
			newest, ok = id, true
		}
		return nil
	})
	if err != nil {
		return ID{}, false, fmt.Errorf("newest checkpoint: %w", err)
	}
	return newest, ok, nil
}

func (s *Store) readSummary(ctx context.Context, id ID) (Summary, error) {
	m, err := s.loadManifest(ctx, manifestName(id), id)
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrRefused):
		return Summary{ID: id, Err: err}, nil
	case err != nil:
		return Summary{}, err
	}
	return Summary{ID: id, Created: m.Created, Nodes: m.Nodes(), Streams: len(m.Streams), Stats: m.Stats}, nil
}

// Delete deletes a checkpoint: its manifest at once, its chunks with a later GC. Processes that
// have the checkpoint open can go on. A damaged checkpoint can be deleted, too. A missing
// checkpoint is fs.ErrNotExist.
func (s *Store) Delete(ctx context.Context, id ID) error {
	if err := id.checkName(); err != nil {
		return err
	}
	err := s.be.Move(ctx, manifestName(id), deletedDir+"/"+deletedName(id, uniqueName()))
	if err == nil {
		err = errors.Join(s.syncIfThere(ctx, manifestFolder(id.JobID)), s.be.Sync(ctx, deletedDir))
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: delete: %w", id, err)
	}
	return nil
}

// eachID calls f for each manifest in manifests/. Another name is an error, because such a name may be needed by a
// later version.
func (s *Store) eachID(ctx context.Context, job *JobID, f func(ID) error) error {
	folders, err := s.jobFolders(ctx, job)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		names, err := s.listNames(ctx, folder)
		if err != nil {
			return err
		}
		for _, n := range names {
			name := folder + "/" + n
			id, err := ParseID(strings.TrimPrefix(name, manifestsDir+"/"))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := f(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// jobFolders returns the folder of a job, or the folders of all jobs if job is nil.
func (s *Store) jobFolders(ctx context.Context, job *JobID) ([]string, error) {
	if job != nil {
		return []string{manifestFolder(*job)}, job.checkName()
	}
	var folders []string
	clusters, err := s.listNames(ctx, manifestsDir)
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		jobs, err := s.listNames(ctx, manifestsDir+"/"+c)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			folders = append(folders, manifestsDir+"/"+c+"/"+j)
		}
	}
	return folders, nil
}
