// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Variables of code that are declared managed: the memory in which they lie, which the program and its devices have mapped. */
#ifndef SING_DEVICE_VARIABLES_H
#define SING_DEVICE_VARIABLES_H

#include "image.h"
#include "jit.h"

#include <stdint.h>

/* A load of code: a function that sends the options of the struct, and returns the handle of what was loaded. */
struct sing_load {
	const struct sing_image *image;
	struct sing_jit *jit;
	CUresult (*send)(struct sing_load *load, uint64_t *made);
	uint64_t context;   /* the code ends with this context; 0: with none */
	const void *common; /* loads of the same address have their variables in common; NULL: with none */
};

/*
 * Load code. If the code has variables that are declared managed, there is memory for them, at the same address for the
 * program and its devices. Where that is impossible the code is loaded without: the server names the variables when the program
 * asks for them.
 */
CUresult sing_load_with_variables(struct sing_load *load, uint64_t *made);

/* Load a module for CUDA's runtime, which loads an image into several contexts: all of these modules have their variables in common. */
int sing_load_for_runtime(CUmodule *module, const void *image);

/* Code was unloaded: its variables go. The work that could use them is over, or ends in the server's care. */
void sing_variables_unloaded(uint64_t code);

/* A context has ended, with all code that was loaded into it. */
void sing_variables_ended(uint64_t context);

#endif
