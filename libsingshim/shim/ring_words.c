// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Values of the ring that are read without a message. */
#include "ring.h"
#include "thread_lane.h"

uint32_t ring_fault(void)
{
	if (!ring_end.at || !ring_is_mine())
		return (0);

	return (atomic_load_explicit(&ring_end.at->fault, memory_order_acquire));
}

uint64_t ring_pipe(void)
{
	return (atomic_load(&ring_end.at->pipe));
}
