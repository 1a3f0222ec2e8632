// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that compiles by NVRTC for the architectures in its arguments, and prints the code that NVRTC returns
 * as machine code. With OPENED the program opens a library that does so, which is linked with NVRTC; with FOUND the
 * program looks NVRTC's calls up, as PyTorch does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef OPENED

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	int (*compile)(int, char **) = library == NULL ? NULL : (int (*)(int, char **))dlsym(library, "compile_all");

	if (compile == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return compile(argc - 1, argv + 1);
}

#else

typedef struct nvrtc_program *nvrtcProgram;
int nvrtcCreateProgram(nvrtcProgram *p);
int nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options);
int nvrtcGetCUBINSize(nvrtcProgram p, size_t *n);
int nvrtcGetCUBIN(nvrtcProgram p, char *to);

#ifdef FOUND
#define CALL(name) ((__typeof__(name) *)dlsym(dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_LOCAL), #name))
#else
#define CALL(name) name
#endif

/* An argument is an option, or two with a space between. */
int compile_all(int argc, char **argv)
{
	nvrtcProgram p;

	if (CALL(nvrtcCreateProgram)(&p) != 0)
		return 1;
	for (int i = 1; i < argc; ++i) {
		char first[64], code[64] = "nothing";
		char *space;
		const char *options[] = { "--std=c++17", first, NULL };
		size_t n = 0;
		int r;

		snprintf(first, sizeof(first), "%s", argv[i]);
		space = strchr(first, ' ');
		if (space != NULL) {
			*space = 0;
			options[2] = space + 1;
		}
		r = CALL(nvrtcCompileProgram)(p, space == NULL ? 2 : 3, options);
		if (r == 0 && (CALL(nvrtcGetCUBINSize)(p, &n) != 0 || CALL(nvrtcGetCUBIN)(p, code) != 0 ||
			       (n != 0 && n != strlen(code) + 1)))
			return 1;
		printf("%s: %d, %s\n", argv[i], r, code);
	}
	return 0;
}

int main(int argc, char **argv)
{
	return compile_all(argc, argv);
}

#endif
