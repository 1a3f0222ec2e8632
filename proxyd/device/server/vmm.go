// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

// vmmWaits are the calls of this file, and of pool.go, that may wait.
var vmmWaits = []string{"cuMemSetAccess"}

// memoryPool is a pool of a space.
type memoryPool struct{}

// physicalMemory is memory of VMM.
type physicalMemory struct{}
