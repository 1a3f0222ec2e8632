// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "ops.h"

#include "transport.h"

#include <stddef.h>

const struct sing_op *sing_op_find(uint32_t op)
{
	unsigned low = 0, high = sing_op_count;

	op &= ~SING_PER_THREAD;
	while (low < high) {
		const unsigned middle = low + (high - low) / 2;

		if (sing_ops[middle].op == op)
			return &sing_ops[middle];
		if (sing_ops[middle].op < op)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}
