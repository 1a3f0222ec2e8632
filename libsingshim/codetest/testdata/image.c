// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Images on the standard input, each as a length (4 bytes) and so many bytes; for each, on the
 * standard output, the result (4 bytes), a length (8 bytes) and the image that was found. The last
 * byte of the input is the last byte that can be read, and no memory is mapped before the page of
 * the first byte.
 */
#include "image.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define END 0x200010000000ull /* of all images */
#define MOST ((size_t)16 << 20)

static bool read_input(void *to, size_t n)
{
	return (fread(to, 1, n, stdin) == n);
}

int main(void)
{
	uint32_t n;

	while (read_input(&n, sizeof(n))) {
		const size_t room = (n + 4095) / 4096 * 4096;
		char *const at = (char *)END - room;
		struct sing_image i = { 0 };
		uint64_t size;
		int32_t r;

		if (n == 0 || n > MOST || mmap(at, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
			return (2);
		if (!read_input((char *)END - n, n))
			return (3);
		r = sing_image_at((char *)END - n, &i);
		size = r == CUDA_SUCCESS ? i.n : 0;
		fwrite(&r, sizeof(r), 1, stdout);
		fwrite(&size, sizeof(size), 1, stdout);
		if (size > 0)
			fwrite(i.at, 1, size, stdout);
		fflush(stdout);
		sing_image_drop(&i);
		munmap(at, room);
	}

	return (0);
}
