// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Loaded before a program, with the shim's next_library.c: prints the functions for which next_find and dlsym differ,
 * and the number of all functions.
 */
#define _GNU_SOURCE
#include "../../shim/next_library.h"

#include <dlfcn.h>
#include <stdio.h>

static const char *const names[] = {
#define X(name, result, parameters) #name,
	SING_NEXT(X)
#undef X
};

__attribute__((constructor)) static void compare_functions(void)
{
	for (int i = 0; i < NEXT_COUNT; ++i) {
		const void *theirs = dlsym(RTLD_NEXT, names[i]);

		if (theirs == NULL || next_find((enum next_name)i) != theirs)
			printf("%s: dlsym finds %p, next_find %p\n", names[i], theirs, next_find((enum next_name)i));
	}
	printf("compared %d\n", NEXT_COUNT);
}
