// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// visitDescriptors calls visit with each descriptor of a process, the lowest first, until visit returns false. A process that
// has ended has no descriptors. The error is that of ctx, or procfs.ErrTooMany.
func visitDescriptors(ctx context.Context, pid int, visit func(procfs.Descriptor) bool) error {
	for d, err := range procfs.Descriptors(pid) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, procfs.ErrTooMany) {
			return err
		}
		if err != nil || !visit(d) {
			return nil //nolint:nilerr // the end of the process
		}
	}
	return nil
}
