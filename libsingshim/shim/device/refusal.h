// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * An option or attribute that is not supported, of a call that is: reported once, by
 * name.
 */
#ifndef SING_DEVICE_REFUSAL_H
#define SING_DEVICE_REFUSAL_H

#include "gen_abi.h"
#include "transport.h"

#include <stdatomic.h>
#include <stdbool.h>

#define SING_REFUSE(what, why)                                                                    \
	({                                                                                        \
		static _Atomic bool said_;                                                        \
		if (!atomic_exchange_explicit(&said_, true, memory_order_relaxed))                \
			sing_missed(what, why);                                                   \
		CUDA_ERROR_NOT_SUPPORTED;                                                         \
	})

#endif
