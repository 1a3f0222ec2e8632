// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "missed.h"
#include "transport.h"

int sing_miss(unsigned i)
{
	const struct sing_miss *m = &sing_misses[i];

	if (!__atomic_exchange_n(&sing_misses_said[i], 1, __ATOMIC_RELAXED))
		sing_missed(sing_misses_text + m->symbol, sing_misses_text + m->why);
	return m->result;
}
