// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Modules: the image is found, the options are taken apart, and both are sent in a single message. */

#include "context.h"
#include "function.h"
#include "image.h"
#include "jit.h"
#include "variables.h"

#include <stdlib.h>
#include <string.h>

static CUresult send_load(struct sing_load *load, uint64_t *made)
{
	const struct sing_image *i = load->image;
	struct sing_jit *jit = load->jit;
	unsigned int info, errors;
	float milliseconds = 0;
	CUmodule module = NULL;
	char *const to_info = sing_log_next(&jit->info, &info), *const to_errors = sing_log_next(&jit->errors, &errors);
	const CUresult r = sing_send_module_load(0, &module, i->at, i->n, jit->names, jit->values, jit->n, to_info, info, to_errors,
						 errors, &milliseconds);

	sing_log_said(&jit->info);
	sing_log_said(&jit->errors);
	sing_jit_tell(jit, milliseconds);
	*made = (uintptr_t)module;
	return r;
}

static CUresult load_module(CUmodule *module, struct sing_image *i, const void *common, unsigned int n, const int *options, void **values)
{
	struct sing_jit jit;
	struct sing_load load = { .image = i, .jit = &jit, .send = send_load, .common = common };
	uint64_t made;
	CUresult r = sing_jit_read(&jit, n, options, values);

	if (sing_current != NULL)
		load.context = sing_current->handle;
	if (r == CUDA_SUCCESS)
		r = sing_load_with_variables(&load, &made);
	if (r == CUDA_SUCCESS)
		*module = (CUmodule)(uintptr_t)made;
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
	return r == CUDA_SUCCESS ? load_module(module, &i, NULL, n, options, values) : r;
}
SING_PUBLIC(cuModuleLoadDataEx);

int sing_load_for_runtime(CUmodule *module, const void *image)
{
	struct sing_image i;
	CUresult r;

	if (module == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_image_at((void *)image, &i);
	return r == CUDA_SUCCESS ? load_module(module, &i, image, 0, NULL, NULL) : r;
}

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
	return r == CUDA_SUCCESS ? load_module(module, &i, NULL, 0, NULL, NULL) : r;
}
SING_PUBLIC(cuModuleLoad);

CUresult sing_cuModuleUnload(CUmodule module)
{
	const CUresult r = sing_send_cuModuleUnload(0, module);

	if (r == CUDA_SUCCESS)
		sing_variables_unloaded((uintptr_t)module);
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
