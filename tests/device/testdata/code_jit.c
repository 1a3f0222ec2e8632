// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Options and messages of the just-in-time compiler.
// expect: the log of errors names line 5

#include "check.h"

#include <string.h>

static const char wrong[] = PTX(
	".visible .entry f()\n"
	"{ .reg .u32 %a; add.u33 %a, %a, 1; ret; }\n");
static const char right[] = PTX(
	".visible .entry f(.param .u64 p)\n"
	"{ .reg .u64 %p; ld.param.u64 %p, [p]; st.global.u32 [%p], 1; ret; }\n"
	".visible .entry g()\n"
	"{ ret; }\n");

int main(void)
{
	char info[512], errors[512], small[8];
	CUmodule module;
	CUfunction f;
	float time;
	int registers;

	open_context();
	{
		CUjit_option names[] = { CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
					 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME };
		void *values[] = { info, (void *)sizeof(info), errors, (void *)sizeof(errors), (void *)-1 };

		memset(info, 'x', sizeof(info));
		memset(errors, 'x', sizeof(errors));
		WANT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, wrong, 5, names, values));
		HOLDS(strnlen(errors, sizeof(errors)) == (size_t)values[3] && (size_t)values[3] > 0);
		HOLDS(strnlen(info, sizeof(info)) == (size_t)values[1]);
		printf("the log of errors %s line 5\n", strstr(errors, "line 5;") != NULL ? "names" : errors);
		memcpy(&time, &values[4], sizeof(time));
		HOLDS(time >= 0 && time < 1e5f);
	}
	{
		CUjit_option names[] = { CU_JIT_LOG_VERBOSE, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER, CU_JIT_MAX_REGISTERS,
					 CU_JIT_TARGET_FROM_CUCONTEXT, CU_JIT_OPTIMIZATION_LEVEL };
		void *values[] = { (void *)1, (void *)sizeof(info), info, (void *)16, NULL, (void *)4 };

		OK(cuModuleLoadDataEx(&module, right, 6, names, values));
		HOLDS(strstr(info, "'f'") != NULL && strstr(info, "'g'") != NULL);
		OK(cuModuleGetFunction(&f, module, "f"));
		OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
		HOLDS(registers > 0 && registers <= 16);
		OK(cuModuleUnload(module));
	}
	/* A log that does not fit is cut off; a log of no room is left alone. */
	{
		CUjit_option names[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
		void *values[] = { small, (void *)sizeof(small) };

		WANT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, wrong, 2, names, values));
		HOLDS(strlen(small) == sizeof(small) - 1 && values[1] == (void *)(sizeof(small) - 1));
		small[0] = 'x';
		values[1] = NULL;
		WANT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, wrong, 2, names, values));
		HOLDS(small[0] == 'x');
	}
	{
		CUjit_option none = (CUjit_option)1000;
		void *value = NULL;

		WANT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, right, 1, &none, &value));
		WANT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, right, 1, NULL, NULL));
	}
	return (0);
}
