// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Libraries: images that belong to no context. The server loads a library into each context that asks for a part of it. */

#include "function.h"
#include "image.h"
#include "jit.h"
#include "refusal.h"
#include "variables.h"

/* A load of a library, with the library's options. */
struct library_load {
	struct sing_load load;
	const int *names;
	void **values;
	unsigned int n;
};

static CUresult send_load(struct sing_load *load, uint64_t *made)
{
	const struct library_load *l = (const struct library_load *)load;
	const struct sing_image *i = load->image;
	struct sing_jit *jit = load->jit;
	unsigned long long numbers[CU_LIBRARY_BINARY_IS_PRESERVED + 1];
	unsigned int info, errors;
	float milliseconds = 0;
	CUlibrary library = NULL;
	CUresult r;

	for (unsigned int k = 0; k < l->n; ++k)
		numbers[k] = l->values == NULL ? 0 : (unsigned long long)(uintptr_t)l->values[k];

	char *const to_info = sing_log_next(&jit->info, &info), *const to_errors = sing_log_next(&jit->errors, &errors);

	r = sing_send_library_load(0, &library, i->at, i->n, jit->names, jit->values, jit->n, l->names, numbers, l->n, to_info, info,
				   to_errors, errors, &milliseconds);
	sing_log_said(&jit->info);
	sing_log_said(&jit->errors);
	sing_jit_tell(jit, milliseconds);
	*made = (uintptr_t)library;
	return r;
}

static CUresult load_library(CUlibrary *library, struct sing_image *i, struct sing_jit *jit, const int *names, void **values,
			     unsigned int n)
{
	struct library_load l = { { .image = i, .jit = jit, .send = send_load }, names, values, n };
	uint64_t made;
	const CUresult r = sing_load_with_variables(&l.load, &made);

	if (r == CUDA_SUCCESS)
		*library = (CUlibrary)(uintptr_t)made;
	return r;
}

/*
 * The options of a library. CU_LIBRARY_BINARY_IS_PRESERVED has no effect here, and its value is not read: cuBLAS
 * passes no values. A table of the program's functions and variables is refused: only a driver in the same process
 * could use it.
 */
static CUresult check_options(unsigned int n, const int *names)
{
	if (n > CU_LIBRARY_BINARY_IS_PRESERVED + 1 || (n > 0 && names == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int k = 0; k < n; ++k) {
		if (names[k] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
			return SING_REFUSE("CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE", "the device server is another process");
		if (names[k] != CU_LIBRARY_BINARY_IS_PRESERVED)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult sing_cuLibraryLoadData(CUlibrary *library, void *image, void *options, void *values, unsigned int n, void *libraryOptions,
				void *libraryValues, unsigned int k)
{
	struct sing_image i;
	struct sing_jit jit;
	CUresult r = library == NULL ? CUDA_ERROR_INVALID_VALUE : check_options(k, libraryOptions);

	if (r == CUDA_SUCCESS)
		r = sing_jit_read(&jit, n, options, values);
	if (r == CUDA_SUCCESS)
		r = sing_image_at(image, &i);
	if (r == CUDA_SUCCESS) {
		r = load_library(library, &i, &jit, libraryOptions, libraryValues, k);
		sing_image_drop(&i);
	}
	return r;
}
SING_PUBLIC(cuLibraryLoadData);

CUresult sing_cuLibraryLoadFromFile(CUlibrary *library, const char *path, void *options, void *values, unsigned int n,
				    void *libraryOptions, void *libraryValues, unsigned int k)
{
	struct sing_image i;
	struct sing_jit jit;
	CUresult r = library == NULL ? CUDA_ERROR_INVALID_VALUE : check_options(k, libraryOptions);

	if (r == CUDA_SUCCESS)
		r = sing_jit_read(&jit, n, options, values);
	if (r == CUDA_SUCCESS)
		r = sing_image_file(path, &i);
	if (r == CUDA_SUCCESS) {
		r = load_library(library, &i, &jit, libraryOptions, libraryValues, k);
		sing_image_drop(&i);
	}
	return r;
}
SING_PUBLIC(cuLibraryLoadFromFile);

CUresult sing_cuLibraryUnload(CUlibrary library)
{
	const CUresult r = sing_send_cuLibraryUnload(0, library);

	if (r == CUDA_SUCCESS)
		sing_variables_unloaded((uintptr_t)library);
	sing_functions_doubt();
	sing_kernels_doubt();
	return r;
}
SING_PUBLIC(cuLibraryUnload);
