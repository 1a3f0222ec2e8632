// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A library that calls cuBLAS, of the release with which it was linked.
#include <stddef.h>

int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);

int call_product(void)
{
	return (cublasSgemm_v2(NULL, 0, 0, 1, 1, 1, NULL, NULL, 1, NULL, 1, NULL, NULL, 1));
}
