// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import "fmt"

// KernelNeeds is the oldest kernel with all features that we use: the newest of them is
// cgroup.kill.
const KernelNeeds = "Linux 5.14"

// The oldest CRIU that works: 4.1 cannot dump TCP sockets on Linux 6.16 and newer, 3.17 fails
// at today's vDSO.
const (
	CriuMajor = 4
	CriuMinor = 2
)

// CriuNeeds is the oldest CRIU as text.
var CriuNeeds = fmt.Sprintf("criu %d.%d", CriuMajor, CriuMinor)
