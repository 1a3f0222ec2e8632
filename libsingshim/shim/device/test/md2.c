// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The digest of export.c alone: the program prints the digest of each argument.
 */
#include "../export.c"

#include <stdio.h>

_Thread_local struct sing_context *sing_current;

bool sing_is_initialized(void)
{
	return false;
}

struct sing_context *sing_context_find(uint64_t handle)
{
	(void)handle;
	return NULL;
}

int sing_load_for_runtime(CUmodule *module, const void *image)
{
	(void)module, (void)image;
	return CUDA_ERROR_UNKNOWN;
}

void sing_missed(const char *symbol, const char *why)
{
	(void)symbol, (void)why;
}

int sing_primary_context(int dev, CUcontext *ctx)
{
	(void)dev, (void)ctx;
	return CUDA_ERROR_UNKNOWN;
}

int sing_devices(void)
{
	return 0;
}

int sing_device_attribute(int dev, int attribute, int *value)
{
	(void)dev, (void)attribute, (void)value;
	return CUDA_ERROR_UNKNOWN;
}

CUresult sing_send_processor_groups(uint32_t per_thread, unsigned char *groups, unsigned char *order, unsigned int n, CUdevice dev)
{
	(void)per_thread, (void)groups, (void)order, (void)n, (void)dev;
	return CUDA_ERROR_UNKNOWN;
}

CUresult sing_cuDriverGetVersion(int *version)
{
	(void)version;
	return CUDA_ERROR_UNKNOWN;
}

CUresult sing_cuDeviceGetUuid(CUuuid *id, CUdevice dev)
{
	(void)id, (void)dev;
	return CUDA_ERROR_UNKNOWN;
}

CUresult sing_cuCtxGetCurrent(CUcontext *ctx)
{
	(void)ctx;
	return CUDA_ERROR_UNKNOWN;
}

CUresult sing_cuModuleGetFunctionCount(unsigned *n, CUmodule module)
{
	(void)n, (void)module;
	return CUDA_ERROR_UNKNOWN;
}

CUresult sing_cuModuleEnumerateFunctions(CUfunction *functions, unsigned n, CUmodule module)
{
	(void)functions, (void)n, (void)module;
	return CUDA_ERROR_UNKNOWN;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; ++i) {
		struct md2 m = { .n = 0 };
		unsigned char digest[16];

		md2_add(&m, argv[i], strlen(argv[i]));
		md2_end(&m, digest);
		for (int k = 0; k < 16; ++k)
			printf("%02x", digest[k]);
		printf("\n");
	}
	return 0;
}
