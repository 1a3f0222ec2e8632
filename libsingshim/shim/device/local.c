// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Calls that are answered here because the answer is in the table. They need no device server. */
#include "find.h"
#include "gen_abi.h"
#include "results.h"

#include <stddef.h>

#ifdef SING_NO_EXPORT_TABLES
#include "export.h"
#include "transport.h"

/* In place of export.c. */
CUresult sing_cuGetExportTable(void **table, const CUuuid *id)
{
	static _Atomic bool said;

	(void)table, (void)id;
	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		sing_missed("cuGetExportTable", "this build has no tables for the runtime library");
	return CUDA_ERROR_NOT_SUPPORTED;
}
SING_PUBLIC(cuGetExportTable);

void sing_context_ended(uint64_t handle)
{
	(void)handle;
}
#endif

static const struct sing_result *find_result(enum sing_library library, int number)
{
	for (unsigned i = 0; i < sing_result_count; ++i) {
		const struct sing_result *r = &sing_results[i];

		if (r->library == (uint32_t)library && r->number == number)
			return r;
	}
	return NULL;
}

CUresult sing_cuGetErrorString(int error, const char **text)
{
	const struct sing_result *r = find_result(SING_DRIVER, error);

	if (text == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*text = r == NULL ? NULL : sing_result_texts + r->text;
	return r == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
SING_PUBLIC(cuGetErrorString);

CUresult sing_cuGetErrorName(int error, const char **name)
{
	const struct sing_result *r = find_result(SING_DRIVER, error);

	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*name = r == NULL ? NULL : sing_result_texts + r->name;
	return r == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
SING_PUBLIC(cuGetErrorName);

const char *sing_ncclGetErrorString(int error)
{
	const struct sing_result *r = find_result(SING_NCCL, error);

	return r == NULL ? "unknown result code" : sing_result_texts + r->text;
}
SING_PUBLIC(ncclGetErrorString);

const char *sing_nvmlErrorString(int error)
{
	const struct sing_result *r = find_result(SING_NVML, error);

	return r == NULL ? "Unknown Error" : sing_result_texts + r->text;
}
SING_PUBLIC(nvmlErrorString);

/* There is no debug log that could be reset. */
void sing_ncclResetDebugInit(void)
{
}
SING_PUBLIC(ncclResetDebugInit);

/*
 * Since 12.0 cuGetProcAddress succeeds without a pointer for an unknown function, and status has the reason.
 * A function that the shim does not cover is found, and reports that when it is called.
 */
CUresult sing_cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status)
{
	bool known;

	if (symbol == NULL || function == NULL || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	*function = sing_find(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	if (status == NULL)
		return CUDA_SUCCESS;
	if (*function != NULL)
		*status = CU_GET_PROC_ADDRESS_SUCCESS;
	else
		*status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuGetProcAddress_v2);

/* Before 12.0, an unknown function was an error. */
CUresult sing_cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags)
{
	const CUresult r = sing_cuGetProcAddress_v2(symbol, function, version, flags, NULL);

	return r == CUDA_SUCCESS && *function == NULL ? CUDA_ERROR_NOT_FOUND : r;
}
SING_PUBLIC(cuGetProcAddress);
