// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import "runtime"

// spareHeap is how much a device server's heap grows at least between two runs of Go's collector.
const spareHeap = 32 << 20

// collectLessOften has Go's collector run less often while the heap is small. The collector runs when the heap has
// doubled: of a device server that has a few megabytes in use, each few thousand launches of kernels, and then each
// pointer that is written costs more. The collector counts memory of the given size as in use, but that memory has no
// pointers to be followed, and the kernel gives no pages for it, because nothing is written there. collectLessOften
// returns the function that ends that.
func collectLessOften() (end func()) {
	spare := make([]byte, spareHeap)
	return func() { runtime.KeepAlive(spare) }
}
