// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Calls of nvJitLink, CUDA's linker at run time. A program that links its kernels' intermediate code (-lto) asks
 * nvJitLink for machine code of the architecture that its device has. A software GPU can have a newer architecture than
 * nvJitLink knows, and runs PTX alone. So nvJitLink is asked for PTX (-ptx), of an architecture that nvJitLink knows,
 * and the program gets PTX in the place of machine code: the driver's calls that load machine code load PTX as well.
 * All other calls of nvJitLink are left alone, and on a real GPU all calls are.
 *
 * The header of each release of CUDA has its own names for the calls, as __nvJitLinkCreate_12_4; the library has the
 * names of older releases, too.
 */
#define _GNU_SOURCE
#include "load.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Numbers of nvJitLinkResult. */
enum { NVJITLINK_SUCCESS = 0, NVJITLINK_ERROR_INTERNAL = 6 };

typedef struct nvJitLink *nvJitLinkHandle;
typedef int create_call(nvJitLinkHandle *, uint32_t, const char **);
typedef int size_call(nvJitLinkHandle, size_t *);
typedef int code_call(nvJitLinkHandle, void *);

/* The functions of nvJitLink have their release in the name, CALL_12_4; no name is longer than this. */
enum { LONGEST_NAME = 64 };

static void *find_call(const char *call, const char *release)
{
	char name[LONGEST_NAME];

	snprintf(name, sizeof(name), "__nvJitLink%s_%s", call, release);
	return sing_find_call("libnvJitLink", name);
}

static int has_option(const char *const *options, uint32_t n, const char *option)
{
	for (uint32_t i = 0; i < n; ++i)
		if (options[i] != NULL && strcmp(options[i], option) == 0)
			return 1;
	return 0;
}

/* The number in "-arch=sm_100", "-arch=compute_90a" and the like; 0 for another option. */
static int parse_architecture(const char *option)
{
	const char *number = strncmp(option, "-arch=", 6) == 0 ? strchr(option, '_') : NULL;

	return number == NULL ? 0 : atoi(number + 1);
}

/*
 * Create with -ptx, for the architecture that is asked for, or for an architecture that each nvJitLink knows:
 * nvJitLink reports an unknown architecture only at the end of the link.
 */
static int create_for_ptx(create_call *next, nvJitLinkHandle *handle, uint32_t n, const char **options)
{
	enum { KNOWN_TO_ALL = 90 };
	const char **changed = malloc(((size_t)n + 1) * sizeof(*changed));
	int r;

	if (changed == NULL)
		return next(handle, n, options);
	for (uint32_t i = 0; i < n; ++i)
		changed[i] = options[i] != NULL && parse_architecture(options[i]) > KNOWN_TO_ALL ? "-arch=sm_90" : options[i];
	changed[n] = "-ptx";
	r = next(handle, n + 1, changed);
	free(changed);
	return r;
}

static int create_linker(const char *release, nvJitLinkHandle *handle, uint32_t n, const char **options)
{
	create_call *const next = (create_call *)find_call("Create", release);

	if (next == NULL)
		return NVJITLINK_ERROR_INTERNAL;
	if (handle == NULL || options == NULL || !has_option(options, n, "-lto") || has_option(options, n, "-ptx") ||
	    !sing_is_software())
		return next(handle, n, options);
	return create_for_ptx(next, handle, n, options);
}

/* The size is one more than that of the PTX, for a NUL, by which the driver finds the end of PTX. */
static int linked_size(const char *release, nvJitLinkHandle handle, size_t *n)
{
	size_call *const next = (size_call *)find_call("GetLinkedCubinSize", release);
	size_call *const of_ptx = (size_call *)find_call("GetLinkedPtxSize", release);
	int r;

	if (next == NULL)
		return NVJITLINK_ERROR_INTERNAL;
	r = next(handle, n);
	if (r == NVJITLINK_SUCCESS || n == NULL || of_ptx == NULL || !sing_is_software() ||
	    of_ptx(handle, n) != NVJITLINK_SUCCESS)
		return r;
	++*n;
	return NVJITLINK_SUCCESS;
}

static int linked_code(const char *release, nvJitLinkHandle handle, void *to)
{
	code_call *const next = (code_call *)find_call("GetLinkedCubin", release);
	code_call *const ptx = (code_call *)find_call("GetLinkedPtx", release);
	size_call *const of_ptx = (size_call *)find_call("GetLinkedPtxSize", release);
	size_t n = 0;
	int r;

	if (next == NULL)
		return NVJITLINK_ERROR_INTERNAL;
	r = next(handle, to);
	if (r == NVJITLINK_SUCCESS || to == NULL || ptx == NULL || of_ptx == NULL || !sing_is_software() ||
	    of_ptx(handle, &n) != NVJITLINK_SUCCESS || ptx(handle, to) != NVJITLINK_SUCCESS)
		return r;
	((char *)to)[n] = 0;
	return NVJITLINK_SUCCESS;
}

/* The releases of CUDA that have nvJitLink, and some to come. */
#define RELEASES(X) \
	X(12_0) X(12_1) X(12_2) X(12_3) X(12_4) X(12_5) X(12_6) X(12_7) X(12_8) X(12_9) \
	X(13_0) X(13_1) X(13_2) X(13_3) X(13_4)

#define DEFINE(release) \
	EXPORT int __nvJitLinkCreate_##release(nvJitLinkHandle *handle, uint32_t n, const char **options); \
	EXPORT int __nvJitLinkGetLinkedCubinSize_##release(nvJitLinkHandle handle, size_t *n); \
	EXPORT int __nvJitLinkGetLinkedCubin_##release(nvJitLinkHandle handle, void *to); \
	int __nvJitLinkCreate_##release(nvJitLinkHandle *handle, uint32_t n, const char **options) \
	{ \
		return create_linker(#release, handle, n, options); \
	} \
	int __nvJitLinkGetLinkedCubinSize_##release(nvJitLinkHandle handle, size_t *n) \
	{ \
		return linked_size(#release, handle, n); \
	} \
	int __nvJitLinkGetLinkedCubin_##release(nvJitLinkHandle handle, void *to) \
	{ \
		return linked_code(#release, handle, to); \
	}
RELEASES(DEFINE)

void *sing_jitlink_call(const char *name)
{
	if (strncmp(name, "__nvJitLink", 11) != 0)
		return NULL;
#define FIND(release) \
	if (strcmp(name, "__nvJitLinkCreate_" #release) == 0) \
		return (void *)__nvJitLinkCreate_##release; \
	if (strcmp(name, "__nvJitLinkGetLinkedCubinSize_" #release) == 0) \
		return (void *)__nvJitLinkGetLinkedCubinSize_##release; \
	if (strcmp(name, "__nvJitLinkGetLinkedCubin_" #release) == 0) \
		return (void *)__nvJitLinkGetLinkedCubin_##release;
	RELEASES(FIND)
	return NULL;
}
