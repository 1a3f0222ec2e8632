// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Options of the just-in-time compiler, as programs write them. Exits with the line that is wrong. */
#include "jit.h"
#include "transport.h"

#include <string.h>

static int missed;

void sing_missed(const char *symbol, const char *why)
{
	missed += symbol[0] != 0 && why[0] != 0;
}

#define HOLDS(condition)              \
	do {                          \
		if (!(condition))     \
			return (__LINE__ % 250 + 1); \
	} while (0)

/* The compiler's text, in the form of a message. */
static void write_log(struct sing_log *l, const char *text)
{
	unsigned int room;
	char *to = sing_log_next(l, &room);

	if (to != NULL) {
		size_t n = strlen(text);

		n = n < room - 1 ? n : room - 1;
		memcpy(to, text, n);
		to[n] = 0;
	}
	sing_log_said(l);
}

int main(void)
{
	char info[16], errors[4];
	struct sing_jit j;
	float time;

	/* As matrixMulDynlinkJIT does: the size before the buffer, a number of registers. */
	{
		int names[] = { CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER, CU_JIT_MAX_REGISTERS };
		void *values[] = { (void *)sizeof(info), info, (void *)32 };

		memset(info, 'x', sizeof(info));
		HOLDS(sing_jit_read(&j, 3, names, values) == CUDA_SUCCESS);
		HOLDS(info[0] == 0 && j.n == 1 && j.names[0] == CU_JIT_MAX_REGISTERS && j.values[0] == 32);
		write_log(&j.info, "used 3 ");
		write_log(&j.info, "registers of many");
		write_log(&j.errors, "nobody wants it");
		sing_jit_tell(&j, 1);
		HOLDS(strcmp(info, "used 3 register") == 0 && values[0] == (void *)15);
	}
	/*
	 * A number is the lower 32 bits of its pointer; of two options with the same name, the last
	 * counts. All outputs come back.
	 */
	{
		int names[] = { CU_JIT_MAX_REGISTERS, CU_JIT_WALL_TIME, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
				CU_JIT_LOG_VERBOSE, CU_JIT_MAX_REGISTERS };
		void *values[] = { (void *)7, NULL, errors, (void *)0xabcd00000004, (void *)1, (void *)0xabcd00000005 };

		HOLDS(sing_jit_read(&j, 6, names, values) == CUDA_SUCCESS);
		HOLDS(j.n == 2 && j.values[0] == 5 && j.names[1] == CU_JIT_LOG_VERBOSE);
		write_log(&j.errors, "bad");
		write_log(&j.errors, "worse");
		sing_jit_tell(&j, 1.5f);
		sing_jit_tell(&j, 1);
		memcpy(&time, &values[1], sizeof(time));
		HOLDS(strcmp(errors, "bad") == 0 && values[3] == (void *)3 && time == 2.5f);
	}
	/* A buffer without a size, and a size without a buffer. */
	{
		int names[] = { CU_JIT_INFO_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
		void *values[] = { info, (void *)8 };

		info[0] = 'x';
		HOLDS(sing_jit_read(&j, 2, names, values) == CUDA_SUCCESS);
		write_log(&j.info, "text");
		write_log(&j.errors, "text");
		sing_jit_tell(&j, 0);
		HOLDS(info[0] == 'x' && values[1] == NULL);
	}
	/* A buffer is written only up to the length of the text, even if its size is given as larger. */
	{
		int names[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
		void *values[] = { errors, (void *)0xffffffff };
		unsigned int room;

		HOLDS(sing_jit_read(&j, 2, names, values) == CUDA_SUCCESS);
		HOLDS(sing_log_next(&j.errors, &room) == errors && room == 1 << 20);
		write_log(&j.errors, "no");
		HOLDS(j.errors.used == 2);
	}
	/* Options that are refused. */
	{
		int name = CU_JIT_NUM_OPTIONS, symbols = CU_JIT_GLOBAL_SYMBOL_NAMES, below = -1;
		void *value = NULL;

		HOLDS(sing_jit_read(&j, 1, &name, &value) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_jit_read(&j, 1, &below, &value) == CUDA_ERROR_INVALID_VALUE);
		for (int i = 0; i < 2; ++i)
			HOLDS(sing_jit_read(&j, 1, &symbols, &value) == CUDA_ERROR_NOT_SUPPORTED && missed == 1);
		HOLDS(sing_jit_read(&j, 1, NULL, &value) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_jit_read(&j, 1, &name, NULL) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_jit_read(&j, 0, NULL, NULL) == CUDA_SUCCESS && j.n == 0);
	}

	return (0);
}
