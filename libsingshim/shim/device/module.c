// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Modules: the image is found, the options are taken apart, and both are sent in a single message. */

#include "function.h"
#include "image.h"
#include "jit.h"

#include <stdlib.h>
#include <string.h>

static CUresult load_module(CUmodule *module, struct sing_image *i, unsigned int n, const int *options, void **values)
{
	struct sing_jit jit;
	unsigned int info, errors;
	float milliseconds = 0;
	CUmodule made = NULL;
	CUresult r = sing_jit_read(&jit, n, options, values);

	if (r == CUDA_SUCCESS) {
		char *const to_info = sing_log_next(&jit.info, &info), *const to_errors = sing_log_next(&jit.errors, &errors);

		r = sing_send_module_load(0, &made, i->at, i->n, jit.names, jit.values, jit.n, to_info, info, to_errors, errors, &milliseconds);
		sing_log_said(&jit.info);
		sing_log_said(&jit.errors);
		sing_jit_tell(&jit, milliseconds);
	}
	if (r == CUDA_SUCCESS)
		*module = made;
	sing_image_drop(i);
	return r;
}

CUresult sing_cuModuleLoadDataEx(CUmodule *module, void *image, unsigned int n, void *options, void *values)
{
	struct sing_image i;
	CUresult r;

	if (module == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_image_at(image, &i);
	return r == CUDA_SUCCESS ? load_module(module, &i, n, options, values) : r;
}
SING_PUBLIC(cuModuleLoadDataEx);

CUresult sing_cuModuleLoadData(CUmodule *module, void *image)
{
	return sing_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}
SING_PUBLIC(cuModuleLoadData);

CUresult sing_cuModuleLoadFatBinary(CUmodule *module, void *image)
{
	return sing_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}
SING_PUBLIC(cuModuleLoadFatBinary);

CUresult sing_cuModuleLoad(CUmodule *module, const char *path)
{
	struct sing_image i;
	CUresult r;

	if (module == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_image_file(path, &i);
	return r == CUDA_SUCCESS ? load_module(module, &i, 0, NULL, NULL) : r;
}
SING_PUBLIC(cuModuleLoad);

CUresult sing_cuModuleUnload(CUmodule module)
{
	const CUresult r = sing_send_cuModuleUnload(0, module);

	sing_functions_doubt();
	return r;
}
SING_PUBLIC(cuModuleUnload);

CUresult sing_cuModuleGetLoadingMode(int *mode)
{
	const char *const wish = getenv("CUDA_MODULE_LOADING");

	if (mode == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = wish != NULL && strcmp(wish, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuModuleGetLoadingMode);
