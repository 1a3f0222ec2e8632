// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Arrays: memory of a device, row behind row without gaps, and the shape that the program gave that memory. */
#ifndef SING_DEVICE_ARRAY_H
#define SING_DEVICE_ARRAY_H

#include "gen_abi.h"

#include <stdbool.h>

/* CUDA_ARRAY3D_DESCRIPTOR. */
struct sing_array_shape {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};

enum { SING_ARRAY_LAYERED = 1, SING_ARRAY_SURFACE = 2 };

struct sing_array {
	struct sing_array *next;
	CUdeviceptr base;
	uint64_t context; /* 0: destroyed, and the memory with the context */
	size_t pitch, rows, slices; /* of bytes, and of rows */
	struct sing_array_shape shape;
};

/* A context is destroyed, and with the context its arrays, or its texture and surface objects. No call of CUDA is made. */
void sing_arrays_ended(uint64_t context);
void sing_objects_ended(uint64_t context);

/* Copy what is known of an array to *what; false if the handle is not an array's. */
bool sing_array_find(CUarray handle, struct sing_array *what);

/* Whether an array holds a block of extent (bytes, rows, slices) that begins at "at". */
bool sing_array_holds(const struct sing_array *a, const size_t at[3], const size_t extent[3]);

/* The size in bytes of a channel of that format, 0 if no array or texture has the format. */
size_t sing_format_bytes(int format);

/* Describe the whole array as a texture or surface. */
void sing_array_describe(const struct sing_array *a, sing_texture_shape *shape);

/*
 * The error of calls for arrays, textures and surfaces on a device that does not support them; the symbol is reported
 * once.
 */
CUresult sing_textures_missed(const char *symbol);

#endif
