// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that uses no device, and looks for libraries: prints the libraries that were found,
 * and the descriptors that are open.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	printf("%d open\n", n - 1);
	for (int i = 1; i < argc; ++i) {
		void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		int (*init)(unsigned) = h == NULL ? NULL : (int (*)(unsigned))dlsym(h, "cuInit");
		Dl_info in;

		if (init == NULL || dladdr((void *)init, &in) == 0)
			printf("%s: %s\n", argv[i], h == NULL ? "not found" : "no cuInit");
		else
			printf("%s: %s, cuInit %d\n", argv[i], strrchr(in.dli_fname, '/') + 1, init(0));
	}
	return 0;
}
