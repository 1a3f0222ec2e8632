// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// UnlessBase calls do unless a checkpoint is the base of a newer checkpoint. Meanwhile no
// checkpoint becomes dependent on it: either this function sees the pledge of the newer checkpoint, or the
// pledge sees what do has done.
func (u *Uploads) UnlessBase(id store.ID, do func() error) error {
	u.folder.mu.Lock()
	defer u.folder.mu.Unlock()
	if u.IsNeededAsBase(id) {
		return nil
	}
	return do()
}

// checkBaseStored returns ErrBaseUnusable if the base of a staged checkpoint is not in the store.
// JOB.pledge already names the base, so a base that is found stays.
func (u *Uploads) checkBaseStored(ctx context.Context, up *Record) error {
	if up.Base == 0 {
		return nil
	}
	id := u.idOf(up)
	id.Number = up.Base
	r, err := u.Store.Open(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrBaseUnusable, err)
	}
	if err != nil {
		return err
	}
	return r.Close()
}

// IsNeededAsBase tells whether a checkpoint is the base of a checkpoint on its way to the store.
// It returns true if that cannot be determined.
func (u *Uploads) IsNeededAsBase(id store.ID) bool {
	for _, suffix := range []string{pledgeSuffix, uploadSuffix} { // in this order: a pledge that becomes an upload in between is still seen
		up, err := u.folder.readRecord(id.Job, suffix)
		if err != nil || up != nil && up.Lost == "" && up.Base == id.Number && u.idOf(up).JobID == id.JobID {
			return true
		}
	}
	return false
}
