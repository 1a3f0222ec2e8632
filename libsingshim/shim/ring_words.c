// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* What the ring says without a message. */
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

bool ring_lease(unsigned int device, uint64_t n)
{
	uint64_t have;

	if (!ring_end.at || !ring_is_mine() || device >= SING_LEASES)
		return (false);
	have = atomic_load_explicit(&ring_end.at->lease[device], memory_order_relaxed);
	do
		if (have < n)
			return (false);
	while (!atomic_compare_exchange_weak(&ring_end.at->lease[device], &have, have - n));

	return (true);
}

void ring_unlease(unsigned int device, uint64_t n)
{
	if (ring_end.at && ring_is_mine() && device < SING_LEASES)
		atomic_fetch_add(&ring_end.at->lease[device], n);
}
