// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The facts of a message that the shim finds by the message's number. */
#ifndef SING_DEVICE_OPS_H
#define SING_DEVICE_OPS_H

#include "results.h"

#include <stdbool.h>

struct sing_op {
	uint32_t op;
	uint16_t library; /* enum sing_library */
	uint16_t free;	  /* needs no current context */
};

/* Hidden: else the code would reach them by pointers, which the loader has to relocate. */
#pragma GCC visibility push(hidden)
extern const struct sing_op sing_ops[];
extern const unsigned sing_op_count;
#pragma GCC visibility pop

/* NULL for a number that the table does not have. A SING_PER_THREAD in the number is ignored. */
const struct sing_op *sing_op_find(uint32_t op);

#endif
