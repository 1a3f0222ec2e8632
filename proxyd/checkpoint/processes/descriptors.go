// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"fmt"
	"os"
)

// maxDescriptors bounds the descriptors of a process that are looked at, the lowest first: their number is the user's
// choice, and the look is root's, outside of the job's cgroup.
const maxDescriptors = 1 << 16

// visitDescriptors calls visit with the folder of the descriptors of a process, and with the number of each, until visit
// returns false. A process that has ended has no descriptors. The error is that of ctx.
func visitDescriptors(ctx context.Context, pid int, visit func(folder, number string) bool) error {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil //nolint:nilerr // the process has ended
	}
	defer dir.Close()
	for range maxDescriptors / 1024 {
		if err := ctx.Err(); err != nil {
			return err
		}
		numbers, err := dir.Readdirnames(1024)
		for _, number := range numbers {
			if !visit(dir.Name(), number) {
				return nil
			}
		}
		if err != nil || len(numbers) == 0 {
			return nil //nolint:nilerr // the end of the list, or of the process
		}
	}
	return nil
}
