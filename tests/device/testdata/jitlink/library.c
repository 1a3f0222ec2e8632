// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A libnvJitLink that behaves as that of CUDA 12.4 does: with a driver nvJitLink wants the driver to link, by a table that
 * ours has not. An architecture that nvJitLink does not know is found at the end only. The result
 * of its "link" is the name of the requested architecture.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_INPUT = 3, NVVM_COMPILE = 5, INTERNAL = 6 };

struct linked {
	char text[64];
	int architecture, is_ptx;
};

EXPORT int __nvJitLinkCreate_12_4(struct linked **to, uint32_t n, const char **options)
{
	struct linked *l;

	if (dlopen("libcuda.so", RTLD_LAZY) != NULL)
		return INTERNAL;
	l = *to = calloc(1, sizeof(*l));
	for (uint32_t i = 0; i < n; ++i) {
		if (strcmp(options[i], "-ptx") == 0)
			l->is_ptx = 1;
		if (strncmp(options[i], "-arch=sm_", 9) == 0)
			l->architecture = atoi(options[i] + 9);
	}
	return SUCCESS;
}

EXPORT int __nvJitLinkComplete_12_4(struct linked *l)
{
	if (l->architecture > 90)
		return NVVM_COMPILE;
	snprintf(l->text, sizeof(l->text), "%s of sm_%d", l->is_ptx ? "PTX" : "machine code", l->architecture);
	return SUCCESS;
}

EXPORT int __nvJitLinkGetLinkedCubinSize_12_4(struct linked *l, size_t *n)
{
	*n = strlen(l->text);
	return l->is_ptx ? INVALID_INPUT : SUCCESS;
}

EXPORT int __nvJitLinkGetLinkedCubin_12_4(struct linked *l, void *to)
{
	if (l->is_ptx)
		return INVALID_INPUT;
	memcpy(to, l->text, strlen(l->text));
	return SUCCESS;
}

EXPORT int __nvJitLinkGetLinkedPtxSize_12_4(struct linked *l, size_t *n)
{
	*n = strlen(l->text);
	return l->is_ptx ? SUCCESS : INVALID_INPUT;
}

EXPORT int __nvJitLinkGetLinkedPtx_12_4(struct linked *l, char *to)
{
	if (!l->is_ptx)
		return INVALID_INPUT;
	memcpy(to, l->text, strlen(l->text));
	return SUCCESS;
}
