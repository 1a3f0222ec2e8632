// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Code that a program passes to the driver by its address, without a length: the length is written in the
 * code. proxyd/device/image parses the same forms.
 */
#ifndef SING_DEVICE_IMAGE_H
#define SING_DEVICE_IMAGE_H

#include "gen_abi.h"

#include <stddef.h>

/* No image is longer; the server does not take longer images. */
#define SING_IMAGE_MAX ((size_t)256 << 20)

struct sing_image {
	const unsigned char *at;
	size_t n;
	unsigned char *own; /* the memory that sing_image_drop frees, or NULL */
};

/*
 * Find the image at an address. An image that cannot be read, contradicts itself or is too long is
 * CUDA_ERROR_INVALID_IMAGE; then sing_image_drop is not needed.
 */
CUresult sing_image_at(const void *address, struct sing_image *i);

/* Read the image in a file. A file that cannot be read is CUDA_ERROR_FILE_NOT_FOUND. */
CUresult sing_image_file(const char *path, struct sing_image *i);

void sing_image_drop(struct sing_image *i);

#endif
