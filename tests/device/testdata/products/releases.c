// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Opens libraries apart from each other, has each call cuBLAS, and prints which cuBLAS was called.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		int (*call)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "call_product");

		if (call == NULL)
			return (printf("%s\n", dlerror()), 1);
		printf("%d\n", call());
	}
	return (0);
}
