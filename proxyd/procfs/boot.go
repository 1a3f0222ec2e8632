// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"os"
	"strings"
)

// BootID returns the kernel's name for its run: PIDs, start times and device numbers are valid in this run only.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
