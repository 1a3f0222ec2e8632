// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "jit.h"

#include "refusal.h"

#include <string.h>

/*
 * The most bytes of a log, which is more than a compiler writes: a program may give
 * any number for the size of its buffer.
 */
enum { LOG_MOST = 1 << 20 };

/* How an option is taken. */
enum {
	NUMBER = 1, /* 32 bits, for the server */
	LOG,	    /* handled here */
	IGNORED,    /* of machine code, or a hint */
	REFUSED,    /* only a compiler to machine code could do that */
};

static const unsigned char kinds[CU_JIT_NUM_OPTIONS] = {
	[CU_JIT_MAX_REGISTERS] = NUMBER,
	[CU_JIT_THREADS_PER_BLOCK] = NUMBER,
	[CU_JIT_WALL_TIME] = LOG,
	[CU_JIT_INFO_LOG_BUFFER] = LOG,
	[CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES] = LOG,
	[CU_JIT_ERROR_LOG_BUFFER] = LOG,
	[CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] = LOG,
	[CU_JIT_OPTIMIZATION_LEVEL] = NUMBER,
	[CU_JIT_TARGET_FROM_CUCONTEXT] = IGNORED,
	[CU_JIT_TARGET] = NUMBER,
	[CU_JIT_FALLBACK_STRATEGY] = NUMBER,
	[CU_JIT_GENERATE_DEBUG_INFO] = NUMBER,
	[CU_JIT_LOG_VERBOSE] = NUMBER,
	[CU_JIT_GENERATE_LINE_INFO] = NUMBER,
	[CU_JIT_CACHE_MODE] = NUMBER,
	[CU_JIT_NEW_SM3X_OPT] = IGNORED,
	[CU_JIT_FAST_COMPILE] = IGNORED,
	/* Names that the program has defined at addresses of its own. */
	[CU_JIT_GLOBAL_SYMBOL_NAMES] = REFUSED,
	[CU_JIT_GLOBAL_SYMBOL_ADDRESSES] = REFUSED,
	[CU_JIT_GLOBAL_SYMBOL_COUNT] = REFUSED,
	/* For NVVM, which the linker does not take. */
	[CU_JIT_LTO] = NUMBER,
	[CU_JIT_FTZ] = NUMBER,
	[CU_JIT_PREC_DIV] = NUMBER,
	[CU_JIT_PREC_SQRT] = NUMBER,
	[CU_JIT_FMA] = NUMBER,
	/* They let the linker leave out the rest. */
	[CU_JIT_REFERENCED_KERNEL_NAMES] = IGNORED,
	[CU_JIT_REFERENCED_KERNEL_COUNT] = IGNORED,
	[CU_JIT_REFERENCED_VARIABLE_NAMES] = IGNORED,
	[CU_JIT_REFERENCED_VARIABLE_COUNT] = IGNORED,
	[CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES] = NUMBER,
	[CU_JIT_POSITION_INDEPENDENT_CODE] = NUMBER,
	[CU_JIT_MIN_CTA_PER_SM] = NUMBER,
	[CU_JIT_MAX_THREADS_PER_BLOCK] = NUMBER,
	[CU_JIT_OVERRIDE_DIRECTIVE_VALUES] = NUMBER,
	[CU_JIT_SPLIT_COMPILE] = IGNORED,
	[CU_JIT_BINARY_LOADER_THREAD_COUNT] = IGNORED,
};

static void log_begin(struct sing_log *l)
{
	if (l->at == NULL || l->room == 0)
		l->at = NULL;
	else
		l->at[0] = 0;
	if (l->room > LOG_MOST)
		l->room = LOG_MOST;
}

/* Store an option that the shim handles: the time and the logs. */
static void take_option(struct sing_jit *j, int option, void **value)
{
	switch (option) {
	case CU_JIT_WALL_TIME:
		j->milliseconds = value;
		break;
	case CU_JIT_INFO_LOG_BUFFER:
		j->info.at = *value;
		break;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
		j->info.room = (unsigned int)(uintptr_t)*value;
		j->info.size = value;
		break;
	case CU_JIT_ERROR_LOG_BUFFER:
		j->errors.at = *value;
		break;
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		j->errors.room = (unsigned int)(uintptr_t)*value;
		j->errors.size = value;
		break;
	default:
		break;
	}
}

/* Keep an option for the server; the last option of a name counts. */
static void keep_option(struct sing_jit *j, int option, uint32_t value)
{
	unsigned int i = 0;

	while (i < j->n && j->names[i] != option)
		++i;
	if (i == j->n)
		++j->n;
	j->names[i] = option;
	j->values[i] = value;
}

CUresult sing_jit_read(struct sing_jit *j, unsigned int n, const int *options, void **values)
{
	memset(j, 0, sizeof(*j));
	if (n > 0 && (options == NULL || values == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < n; ++i) {
		if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		switch (kinds[options[i]]) {
		case NUMBER:
			keep_option(j, options[i], (uint32_t)(uintptr_t)values[i]);
			break;
		case LOG:
			take_option(j, options[i], &values[i]);
			break;
		case REFUSED:
			return SING_REFUSE("CU_JIT_GLOBAL_SYMBOL_NAMES", "addresses that the program gives to names of its code");
		default:
			break;
		}
	}
	log_begin(&j->info);
	log_begin(&j->errors);
	return CUDA_SUCCESS;
}

char *sing_log_next(const struct sing_log *l, unsigned int *room)
{
	if (l->at == NULL) {
		*room = 0;
		return NULL;
	}
	*room = l->room - l->used;
	return l->at + l->used;
}

void sing_log_said(struct sing_log *l)
{
	if (l->at != NULL)
		l->used += (unsigned int)strnlen(l->at + l->used, l->room - l->used - 1);
}

void sing_jit_tell(struct sing_jit *j, float milliseconds)
{
	j->spent += milliseconds;
	if (j->info.size != NULL)
		*j->info.size = (void *)(uintptr_t)j->info.used;
	if (j->errors.size != NULL)
		*j->errors.size = (void *)(uintptr_t)j->errors.used;
	if (j->milliseconds != NULL)
		memcpy(j->milliseconds, &j->spent, sizeof(j->spent));
}
