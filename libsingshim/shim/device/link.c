// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The linker. Its messages go to the buffers that were named when the linker was made, and the image that the
 * linker makes is memory of the program's until the linker is destroyed.
 */

#include "image.h"
#include "jit.h"

#include <pthread.h>
#include <stdlib.h>

struct linker {
	struct linker *next;
	CUlinkState state;
	struct sing_jit jit;
	unsigned char *image; /* the image that the linker has made, or NULL */
	size_t n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct linker *linkers;

/* The place in the list where a linker is, or its end. Caller holds lock. */
static struct linker **find_place(CUlinkState state)
{
	struct linker **p = &linkers;

	while (*p != NULL && (*p)->state != state)
		p = &(*p)->next;
	return p;
}

/* A linker is used by a single thread at a time, as the driver demands too. */
static struct linker *find_linker(CUlinkState state)
{
	struct linker *l;

	pthread_mutex_lock(&lock);
	l = *find_place(state);
	pthread_mutex_unlock(&lock);
	return l;
}

CUresult sing_cuLinkCreate_v2(unsigned int n, void *options, void *values, CUlinkState *state)
{
	struct linker *l;
	CUresult r;

	if (state == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sing_jit_read(&l->jit, n, options, values);
	if (r == CUDA_SUCCESS)
		r = sing_send_link_create(0, &l->state, l->jit.names, l->jit.values, l->jit.n);
	if (r != CUDA_SUCCESS) {
		free(l);
		return r;
	}
	*state = l->state;
	pthread_mutex_lock(&lock);
	l->next = linkers;
	linkers = l;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuLinkCreate_v2);

static CUresult add_data(struct linker *l, int type, const void *data, size_t size, const char *name, unsigned int n, const int *options,
			 void **values)
{
	struct sing_jit own;
	unsigned int info, errors;
	CUresult r = sing_jit_read(&own, n, options, values);

	if (r != CUDA_SUCCESS)
		return r;

	char *const to_info = sing_log_next(&l->jit.info, &info), *const to_errors = sing_log_next(&l->jit.errors, &errors);

	r = sing_send_link_add(0, l->state, type, data, size, name, own.names, own.values, own.n, to_info, info, to_errors, errors);
	sing_log_said(&l->jit.info);
	sing_log_said(&l->jit.errors);
	sing_jit_tell(&l->jit, 0);
	return r;
}

CUresult sing_cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t n, const char *name, unsigned int k, void *options,
			       void *values)
{
	struct linker *const l = find_linker(state);

	if (l == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (data == NULL || n == 0 || n > SING_IMAGE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	return add_data(l, type, data, n, name, k, options, values);
}
SING_PUBLIC(cuLinkAddData_v2);

CUresult sing_cuLinkAddFile_v2(CUlinkState state, int type, const char *path, unsigned int k, void *options, void *values)
{
	struct linker *const l = find_linker(state);
	struct sing_image i;
	CUresult r;

	if (l == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sing_image_file(path, &i);
	if (r != CUDA_SUCCESS)
		return r;
	r = add_data(l, type, i.at, i.n, path, k, options, values);
	sing_image_drop(&i);
	return r;
}
SING_PUBLIC(cuLinkAddFile_v2);

/* Link, and fetch the image. */
static CUresult complete_link(struct linker *l)
{
	unsigned int info, errors;
	float milliseconds = 0, none = 0;
	size_t n = 0;
	char *const to_info = sing_log_next(&l->jit.info, &info), *const to_errors = sing_log_next(&l->jit.errors, &errors);
	CUresult r = sing_send_link_complete(0, l->state, NULL, &n, to_info, info, to_errors, errors, &milliseconds);

	sing_log_said(&l->jit.info);
	sing_log_said(&l->jit.errors);
	sing_jit_tell(&l->jit, milliseconds);
	if (r != CUDA_SUCCESS)
		return r;
	l->image = malloc(n);
	if (l->image == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->n = n;
	r = sing_send_link_complete(0, l->state, l->image, &n, NULL, 0, NULL, 0, &none);
	if (r == CUDA_SUCCESS && n == l->n)
		return CUDA_SUCCESS;
	free(l->image);
	l->image = NULL;
	return r == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : r;
}

CUresult sing_cuLinkComplete(CUlinkState state, void **image, size_t *n)
{
	struct linker *const l = find_linker(state);
	CUresult r;

	if (l == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (l->image != NULL)
		return CUDA_ERROR_INVALID_HANDLE; /* a link is completed once */
	r = complete_link(l);
	if (r != CUDA_SUCCESS)
		return r;
	*image = l->image;
	if (n != NULL)
		*n = l->n;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuLinkComplete);

CUresult sing_cuLinkDestroy(CUlinkState state)
{
	struct linker *l, **p;
	CUresult r;

	pthread_mutex_lock(&lock);
	p = find_place(state);
	l = *p;
	if (l != NULL)
		*p = l->next;
	pthread_mutex_unlock(&lock);
	if (l == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sing_send_cuLinkDestroy(0, state);
	free(l->image);
	free(l);
	return r;
}
SING_PUBLIC(cuLinkDestroy);
