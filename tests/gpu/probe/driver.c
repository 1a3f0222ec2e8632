// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The driver is loaded when a question is asked, and not with the program, so that probe --help works without it. Each call
 * of the driver jumps to where the driver has the call; calls.h has them all.
 */
#include "probe.h"

#include <dlfcn.h>

/* In the place of a call that the driver is too old to have. */
static CUresult answer_absent(void)
{
	return (CUDA_ERROR_NOT_FOUND);
}

#define CALL(name)                           \
	__attribute__((used)) void *at_##name; \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ": jmp *at_" #name "(%rip)\n");
#include "calls.h"
#undef CALL

const char *load_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (!driver)
		return (dlerror());
#define CALL(name)                         \
	at_##name = dlsym(driver, #name);  \
	if (!at_##name)                    \
		at_##name = (void *)answer_absent;
#include "calls.h"
#undef CALL
	return (NULL);
}
