// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Matrix products in the place of cuBLAS's: see proxyd/softgpu/gemm. */
#ifndef SING_DEVICE_PRODUCT_H
#define SING_DEVICE_PRODUCT_H

#include "gen_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers of cudaDataType. */
enum { DATA_F32 = 0, DATA_F64 = 1, DATA_F16 = 2, DATA_BF16 = 14 };

/* A matrix by columns; the members count elements. */
struct sing_matrix {
	const void *at;
	int type;
	int64_t leading;
	int64_t stride; /* from product to product of a batch */
};

/* D = alpha * op(A) * op(B) + beta * C + bias */
struct sing_product {
	bool turns_a, turns_b; /* op() transposes */
	int64_t m, n, k, batch;
	const void *alpha, *beta; /* double for a product of DATA_F64, else float */
	struct sing_matrix a, b, c, d, bias;
	CUstream stream;
};

/* Whether this process is to compute products by these functions: see SING_BLAS_ENV. The first call decides. */
bool sing_products_chosen(void);

/*
 * Launch a product. Returns false, without a launch, if these functions do not cover the product, or the arguments are
 * wrong in a way that the vendor's library reports. *result is the driver's.
 */
bool sing_product_launch(const struct sing_product *p, CUresult *result);

#endif
