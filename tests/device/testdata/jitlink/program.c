// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that links by nvJitLink for the options that its arguments are, a single list in each, and prints the machine
 * code that it gets. With FOUND the program looks nvJitLink's calls up.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct linked *nvJitLinkHandle;
int __nvJitLinkCreate_12_4(nvJitLinkHandle *l, unsigned n, const char **options);
int __nvJitLinkComplete_12_4(nvJitLinkHandle l);
int __nvJitLinkGetLinkedCubinSize_12_4(nvJitLinkHandle l, size_t *n);
int __nvJitLinkGetLinkedCubin_12_4(nvJitLinkHandle l, void *to);

#ifdef FOUND
#define CALL(name) \
	((__typeof__(name##_12_4) *)dlsym(dlopen("libnvJitLink.so.12", RTLD_NOW | RTLD_LOCAL), #name "_12_4"))
#else
#define CALL(name) name##_12_4
#endif

int main(int argc, char **argv)
{
	if (cuInit(0) != CUDA_SUCCESS)
		return 1;
	for (int i = 1; i < argc; ++i) {
		const char *options[8];
		char words[64], code[64];
		nvJitLinkHandle l;
		unsigned count = 0;
		size_t n = 0;
		int r;

		memset(code, '?', sizeof(code));
		snprintf(words, sizeof(words), "%s", argv[i]);
		for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
			options[count++] = word;
		r = CALL(__nvJitLinkCreate)(&l, count, options);
		if (r == 0)
			r = CALL(__nvJitLinkComplete)(l);
		if (r == 0 && (r = CALL(__nvJitLinkGetLinkedCubinSize)(l, &n)) == 0)
			r = CALL(__nvJitLinkGetLinkedCubin)(l, code);
		printf("%s: %d, %.*s%s\n", argv[i], r, (int)n, code, n > 0 && code[n - 1] == 0 ? " and a NUL" : "");
	}
	return 0;
}
