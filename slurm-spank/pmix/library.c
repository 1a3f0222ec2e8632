// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pmix.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library pmix;

static const struct {
	const char *name;
	size_t at;
} functions[] = {
#define ROW(type, name, arguments) { #name, offsetof(struct library, name) },
	ABI_FUNCTIONS(ROW)
#undef ROW
};

/* The layouts of abi.h are those from version 4 on. The text is "OpenPMIx 5.0.7, …" or "PMIx 4.2.2, …". */
static bool is_new_enough(const char *version)
{
	const char *digits = version + strcspn(version, "0123456789");

	return (atoi(digits) >= 4);
}

int load_library(void)
{
	const char *chosen = getenv(LIBRARY_VARIABLE);
	const char *name = chosen && *chosen ? chosen : "libpmix.so.2";
	void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL); /* global: PMIx's own plugins look for its symbols */

	if (!handle) {
		fprintf(stderr, "singularity: srun --mpi=pmix needs PMIx's library: %s\n", dlerror());
		return (-1);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
		void *function = dlsym(handle, functions[i].name);

		if (!function) {
			fprintf(stderr, "singularity: srun --mpi=pmix needs PMIx 4 or newer: %s has no %s\n", name, functions[i].name);
			return (-1);
		}
		memcpy((char *)&pmix + functions[i].at, &function, sizeof(function));
	}
	if (!is_new_enough(pmix.PMIx_Get_version())) {
		fprintf(stderr, "singularity: srun --mpi=pmix needs PMIx 4 or newer: %s is %s\n", name, pmix.PMIx_Get_version());
		return (-1);
	}

	return (0);
}
