// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Calls of NVRTC, CUDA's compiler at run time. A program asks NVRTC for code of the capability that its device has. A
 * software GPU can have a newer capability than NVRTC knows, and runs PTX alone. So NVRTC is asked for PTX of the newest
 * architecture that NVRTC knows, and the program gets PTX in the place of machine code that NVRTC did not make, or that
 * its device cannot run: the driver's calls that load machine code load PTX as well. All other calls of NVRTC are left
 * alone.
 */
#define _GNU_SOURCE
#include "load.h"

#include "../../wire/attach.h"
#include "gen_abi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Numbers of nvrtcResult. */
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_INTERNAL_ERROR = 11 };

enum { MOST_ARCHITECTURES = 256 };

typedef struct nvrtc_program *nvrtcProgram;
typedef int compile_call(nvrtcProgram, int, const char *const *);
typedef int size_call(nvrtcProgram, size_t *);
typedef int code_call(nvrtcProgram, char *);
typedef int architectures_call(int *);

EXPORT compile_call nvrtcCompileProgram;
EXPORT size_call nvrtcGetCUBINSize;
EXPORT code_call nvrtcGetCUBIN;

static void *find_call(const char *symbol) { return sing_find_call("libnvrtc", symbol); }

void *sing_nvrtc_call(const char *name)
{
	if (strncmp(name, "nvrtc", 5) != 0)
		return NULL;
	if (strcmp(name, "nvrtcCompileProgram") == 0)
		return (void *)nvrtcCompileProgram;
	if (strcmp(name, "nvrtcGetCUBINSize") == 0)
		return (void *)nvrtcGetCUBINSize;
	return strcmp(name, "nvrtcGetCUBIN") == 0 ? (void *)nvrtcGetCUBIN : NULL;
}

static int has_server(void)
{
	const char *server = getenv(SING_DEVICE_ENV);

	return server != NULL && *server != 0;
}

/* The newest architecture that NVRTC knows, or 0: NVRTC before 11.2 does not tell. */
static int newest_architecture(void)
{
	architectures_call *const count = (architectures_call *)find_call("nvrtcGetNumSupportedArchs");
	architectures_call *const list = (architectures_call *)find_call("nvrtcGetSupportedArchs");
	int known[MOST_ARCHITECTURES], n = 0, newest = 0;

	if (count == NULL || list == NULL || count(&n) != NVRTC_SUCCESS || n < 0 || n > MOST_ARCHITECTURES ||
	    list(known) != NVRTC_SUCCESS)
		return 0;
	for (int i = 0; i < n; ++i)
		newest = known[i] > newest ? known[i] : newest;
	return newest;
}

/* The number in "sm_100", "compute_90a" and the like, or 0. */
static int parse_architecture(const char *text)
{
	if (strncmp(text, "sm_", 3) == 0)
		return atoi(text + 3);
	return strncmp(text, "compute_", 8) == 0 ? atoi(text + 8) : 0;
}

/* The part of an option behind --gpu-architecture, with the =, or NULL. */
static const char *architecture_value(const char *option)
{
	static const char *const names[] = { "--gpu-architecture", "-arch", "--arch" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
		const size_t n = strlen(names[i]);

		if (strncmp(option, names[i], n) == 0 && (option[n] == '=' || option[n] == 0))
			return option + n;
	}
	return NULL;
}

/*
 * Replace architectures that NVRTC does not know in the options by text, which is "--gpu-architecture=" followed by the
 * value at "value".
 */
static void replace_architectures(const char **options, int n, int newest, const char *text, const char *value)
{
	for (int i = 0; i < n; ++i) {
		const char *asked = options[i] == NULL ? NULL : architecture_value(options[i]);

		if (asked != NULL && *asked == '=' && parse_architecture(asked + 1) > newest)
			options[i] = text;
		else if (asked != NULL && *asked == 0 && i + 1 < n && options[i + 1] != NULL &&
			 parse_architecture(options[i + 1]) > newest)
			options[++i] = value;
	}
}

int nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options)
{
	static const char name[] = "--gpu-architecture=";
	compile_call *const next = (compile_call *)find_call("nvrtcCompileProgram");
	char text[sizeof(name) + sizeof("compute_") + 16];
	const char **changed;
	int newest, r;

	if (next == NULL)
		return NVRTC_ERROR_INTERNAL_ERROR;
	newest = n > 0 && options != NULL && has_server() ? newest_architecture() : 0;
	changed = newest == 0 ? NULL : malloc((size_t)n * sizeof(*changed));
	if (changed == NULL)
		return next(program, n, options);
	memcpy(changed, options, (size_t)n * sizeof(*changed));
	snprintf(text, sizeof(text), "%scompute_%d", name, newest);
	replace_architectures(changed, n, newest, text, text + sizeof(name) - 1);
	r = next(program, n, changed);
	free(changed);
	return r;
}

/* By the name of the devices of proxyd/softgpu. */
int sing_is_software(void)
{
	char name[64] = "";

	return has_server() && cuDeviceGetName(name, sizeof(name), 0) == CUDA_SUCCESS &&
	       strcmp(name, "Singularity software GPU") == 0;
}

/* Whether the program gets PTX in the place of the machine code of n bytes. */
static int gets_ptx(size_t n)
{
	return has_server() && (n == 0 || sing_is_software());
}

int nvrtcGetCUBINSize(nvrtcProgram program, size_t *n)
{
	size_call *const next = (size_call *)find_call("nvrtcGetCUBINSize");
	size_call *const of_ptx = (size_call *)find_call("nvrtcGetPTXSize");
	int r;

	if (next == NULL)
		return NVRTC_ERROR_INTERNAL_ERROR;
	r = next(program, n);
	return r == NVRTC_SUCCESS && n != NULL && of_ptx != NULL && gets_ptx(*n) ? of_ptx(program, n) : r;
}

int nvrtcGetCUBIN(nvrtcProgram program, char *code)
{
	size_call *const size = (size_call *)find_call("nvrtcGetCUBINSize");
	code_call *const next = (code_call *)find_call("nvrtcGetCUBIN");
	code_call *const ptx = (code_call *)find_call("nvrtcGetPTX");
	size_t n = 0;

	if (next == NULL || size == NULL)
		return NVRTC_ERROR_INTERNAL_ERROR;
	if (code != NULL && ptx != NULL && size(program, &n) == NVRTC_SUCCESS && gets_ptx(n))
		return ptx(program, code);
	return next(program, code);
}
