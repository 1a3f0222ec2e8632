// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Names of kernels, and attributes that a program asks for and sets. */

#include "function.h"

#include "attach.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* From now on launches of the function are checked against the value. */
CUresult sing_cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
	const CUresult r = sing_send_cuFuncSetAttribute(0, function, attribute, value);

	if (r == CUDA_SUCCESS && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		sing_function_shares(function, (uint32_t)value);
	return r;
}
SING_PUBLIC(cuFuncSetAttribute);

/*
 * Known values of the attributes of a kernel on a device: vendors' libraries ask for some attributes, and set them to the values
 * that they have, before each launch. A known value holds until the program sets another value, or unloads a library.
 */
struct kernel_values {
	struct kernel_values *next;
	uint64_t kernel;
	int dev;
	unsigned int known; /* a bit for each */
	int values[CU_FUNC_ATTRIBUTE_MAX];
};

enum { KERNELS = 1024 };
static pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel_values *kernels[KERNELS];

/* The caller holds kernel_lock. NULL if there is no memory. */
static struct kernel_values *values_of(CUkernel kernel, int dev)
{
	const uint64_t handle = (uintptr_t)kernel;
	struct kernel_values **const at = &kernels[(handle ^ (unsigned int)dev) % KERNELS], *v;

	for (v = *at; v != NULL; v = v->next)
		if (v->kernel == handle && v->dev == dev)
			return v;
	v = calloc(1, sizeof(*v));
	if (v != NULL) {
		v->next = *at;
		v->kernel = handle;
		v->dev = dev;
		*at = v;
	}
	return v;
}

static bool find_value(int attribute, CUkernel kernel, int dev, int *value)
{
	const struct kernel_values *v;
	bool known;

	if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return false;
	pthread_mutex_lock(&kernel_lock);
	v = values_of(kernel, dev);
	known = v != NULL && v->known & 1u << attribute;
	if (known)
		*value = v->values[attribute];
	pthread_mutex_unlock(&kernel_lock);
	return known;
}

static void keep_value(int attribute, CUkernel kernel, int dev, int value)
{
	struct kernel_values *v;

	if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return;
	pthread_mutex_lock(&kernel_lock);
	v = values_of(kernel, dev);
	if (v != NULL) {
		v->values[attribute] = value;
		v->known |= 1u << attribute;
	}
	pthread_mutex_unlock(&kernel_lock);
}

void sing_kernels_doubt(void)
{
	pthread_mutex_lock(&kernel_lock);
	for (int i = 0; i < KERNELS; ++i)
		for (struct kernel_values *v = kernels[i]; v != NULL; v = v->next)
			v->known = 0;
	pthread_mutex_unlock(&kernel_lock);
}

CUresult sing_cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice dev)
{
	CUresult r;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (find_value(attribute, kernel, dev, value))
		return CUDA_SUCCESS;
	r = sing_send_cuKernelGetAttribute(0, value, attribute, kernel, dev);
	if (r == CUDA_SUCCESS)
		keep_value(attribute, kernel, dev, *value);
	return r;
}
SING_PUBLIC(cuKernelGetAttribute);

CUresult sing_cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice dev)
{
	CUresult r;
	int now;

	if (sing_is_initialized() && find_value(attribute, kernel, dev, &now) && now == value)
		return CUDA_SUCCESS;
	r = sing_send_cuKernelSetAttribute(0, attribute, value, kernel, dev);
	if (r == CUDA_SUCCESS)
		keep_value(attribute, kernel, dev, value);
	/*
	 * The attribute holds for the functions of this kernel in all contexts of that device: the shim asks for the
	 * facts of these functions again.
	 */
	if (r == CUDA_SUCCESS && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		sing_functions_doubt();
	return r;
}
SING_PUBLIC(cuKernelSetAttribute);

/*
 * Names that were returned to the program. The driver keeps them while the code is loaded; the shim never frees
 * them, for handles are not used a second time.
 */
struct name {
	struct name *next;
	uint64_t handle;
	char text[];
};

enum { PLACES = 256, NAME_FIRST = 1024, NAME_MOST = 1 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct name *names[PLACES];

static CUresult send_function_name(char *to, unsigned int room, uint64_t handle)
{
	return sing_send_function_name(0, to, room, (CUfunction)handle);
}

static CUresult send_kernel_name(char *to, unsigned int room, uint64_t handle)
{
	return sing_send_kernel_name(0, to, room, (CUkernel)handle);
}

/* Ask for a name. A name that fills its room may be longer. */
static CUresult ask_name(CUresult (*send)(char *, unsigned int, uint64_t), uint64_t handle, struct name **made)
{
	for (unsigned int room = NAME_FIRST; room <= NAME_MOST; room *= 4) {
		struct name *const n = malloc(sizeof(*n) + room);
		CUresult r;

		if (n == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		r = send(n->text, room, handle);
		if (r == CUDA_SUCCESS && strlen(n->text) < room - 1) {
			n->handle = handle;
			*made = n;
			return CUDA_SUCCESS;
		}
		free(n);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_ERROR_UNKNOWN;
}

/* Return the place of a handle's name in its list, or the list's end. The caller holds lock. */
static struct name **find_name(uint64_t handle)
{
	struct name **p = &names[handle % PLACES];

	while (*p != NULL && (*p)->handle != handle)
		p = &(*p)->next;
	return p;
}

static CUresult name_of(CUresult (*send)(char *, unsigned int, uint64_t), uint64_t handle, const char **name)
{
	struct name *n, *made, **p;
	CUresult r;

	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* The server is asked each time, because the code may have been unloaded. */
	r = ask_name(send, handle, &made);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	p = find_name(handle);
	n = *p;
	if (n == NULL) {
		n = realloc(made, sizeof(*made) + strlen(made->text) + 1);
		if (n == NULL)
			n = made;
		n->next = NULL;
		*p = n;
		made = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(made);
	*name = n->text;
	return CUDA_SUCCESS;
}

CUresult sing_cuFuncGetName(const char **name, CUfunction function)
{
	return name_of(send_function_name, (uint64_t)(uintptr_t)function, name);
}
SING_PUBLIC(cuFuncGetName);

CUresult sing_cuKernelGetName(const char **name, CUkernel kernel)
{
	return name_of(send_kernel_name, (uint64_t)(uintptr_t)kernel, name);
}
SING_PUBLIC(cuKernelGetName);
