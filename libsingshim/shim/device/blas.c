// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Calls of cuBLAS and cuBLASLt that multiply matrices of real numbers. If the user has chosen so, and the device is a software
 * GPU, product.c launches the product; else, and for arguments that product.c does not cover, the vendor's function of the same
 * name is called. Handles, streams, workspaces, descriptors and algorithms are the vendor's. All other calls of the two
 * libraries are left alone. cuBLAS's own calls of these functions of cuBLASLt come here as well.
 */
#define _GNU_SOURCE
#include "../../wire/attach.h"
#include "load.h"
#include "product.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Numbers of cublasStatus_t. */
enum { BLAS_SUCCESS = 0, BLAS_NOT_INITIALIZED = 1, BLAS_EXECUTION_FAILED = 13 };

/* Numbers of cublasOperation_t: conjugate is the same as transposed for real numbers. */
enum { OP_N = 0, OP_T = 1, OP_C = 2 };

/* Numbers of cublasComputeType_t. */
enum {
	COMPUTE_32F = 68,
	COMPUTE_32F_PEDANTIC = 69,
	COMPUTE_64F = 70,
	COMPUTE_64F_PEDANTIC = 71,
	COMPUTE_32F_FAST_16F = 74,
	COMPUTE_32F_FAST_16BF = 75,
	COMPUTE_32F_FAST_TF32 = 77,
};

typedef struct cublas_context *handle_t;
typedef void any_call(void);

/* The vendor's functions that were found for callers. */
enum { MOST_CALLERS = 64 };
struct found_call {
	_Atomic(const void *) caller;
	_Atomic(any_call *) call;
};

/* The vendor's function that a caller means, or NULL. found keeps the result. */
static any_call *find_next(const char *library, const char *name, const void *caller, struct found_call *found)
{
	struct found_call *const slot = &found[((uintptr_t)caller >> 2) % MOST_CALLERS];
	const void *unused = NULL;
	any_call *f;

	if (atomic_load_explicit(&slot->caller, memory_order_acquire) == caller) {
		f = atomic_load_explicit(&slot->call, memory_order_acquire);
		if (f != NULL)
			return f;
	}
	f = (any_call *)sing_find_of_caller(caller, name);
	if (f == NULL)
		f = (any_call *)sing_find_call(library, name);
	/* A slot belongs to the first caller that takes it. */
	if (f != NULL && atomic_compare_exchange_strong(&slot->caller, &unused, caller))
		atomic_store_explicit(&slot->call, f, memory_order_release);
	return f;
}

/* For use in a function that has a parameter or variable "caller". */
#define NEXT(library, name) \
	({ \
		static struct found_call found_[MOST_CALLERS]; \
		(__typeof__(name) *)find_next(library, #name, caller, found_); \
	})

/* The stream and the pointer mode of a handle, from cuBLAS. */
int cublasGetStream_v2(handle_t handle, CUstream *stream);
int cublasGetPointerMode_v2(handle_t handle, int *mode);

static bool is_operation(int op) { return op == OP_N || op == OP_T || op == OP_C; }

/* Whether product.c computes products of matrices of this type in this way. */
static bool covers_compute(int compute, int type)
{
	switch (compute) {
	case COMPUTE_32F:
	case COMPUTE_32F_PEDANTIC:
	case COMPUTE_32F_FAST_16F:
	case COMPUTE_32F_FAST_16BF:
	case COMPUTE_32F_FAST_TF32:
		return type != DATA_F64;
	case COMPUTE_64F:
	case COMPUTE_64F_PEDANTIC:
		return type == DATA_F64;
	}
	return false;
}

/* Launch a product of a handle. False: the vendor's function is to be called. */
static bool launch_product(const void *caller, handle_t handle, int op_a, int op_b, struct sing_product *p, int compute, int *status)
{
	int (*const get_stream)(handle_t, CUstream *) = NEXT("libcublas", cublasGetStream_v2);
	int (*const get_mode)(handle_t, int *) = NEXT("libcublas", cublasGetPointerMode_v2);
	int mode = 1;
	CUresult r;

	if (handle == NULL || get_stream == NULL || get_mode == NULL || !is_operation(op_a) || !is_operation(op_b) ||
	    !covers_compute(compute, p->a.type) || get_mode(handle, &mode) != BLAS_SUCCESS || mode != 0 ||
	    get_stream(handle, &p->stream) != BLAS_SUCCESS)
		return false;
	p->turns_a = op_a != OP_N;
	p->turns_b = op_b != OP_N;
	p->d = p->c;
	if (!sing_product_launch(p, &r))
		return false;
	*status = r == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_EXECUTION_FAILED;
	return true;
}

/*
 * Define a call of cuBLAS: its parameters, the arguments for the vendor's function, and the fields that describe the
 * matrices.
 */
#define DEFINE(name, parameters, arguments, compute, ...) \
	EXPORT int name parameters; \
	int name parameters \
	{ \
		const void *const caller = __builtin_return_address(0); \
		__typeof__(name) *const next = NEXT("libcublas", name); \
		int status; \
		if (handle != NULL && sing_products_chosen()) { \
			struct sing_product p = { .m = m, .n = n, .k = k, .alpha = alpha, .beta = beta, __VA_ARGS__ }; \
			if (launch_product(caller, handle, op_a, op_b, &p, compute, &status)) \
				return status; \
		} \
		return next == NULL ? BLAS_NOT_INITIALIZED : next arguments; \
	}

#define PLAIN(name, real, type, compute) \
	DEFINE(name, \
	       (handle_t handle, int op_a, int op_b, int m, int n, int k, const real *alpha, const real *a, int lda, const real *b, int ldb, \
		const real *beta, real *c, int ldc), \
	       (handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), compute, .batch = 1, .a = { a, type, lda, 0 }, \
	       .b = { b, type, ldb, 0 }, .c = { c, type, ldc, 0 })

#define STRIDED(name, real, type, compute) \
	DEFINE(name, \
	       (handle_t handle, int op_a, int op_b, int m, int n, int k, const real *alpha, const real *a, int lda, long long stride_a, \
		const real *b, int ldb, long long stride_b, const real *beta, real *c, int ldc, long long stride_c, int batch), \
	       (handle, op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch), compute, \
	       .batch = batch, .a = { a, type, lda, stride_a }, .b = { b, type, ldb, stride_b }, .c = { c, type, ldc, stride_c })

PLAIN(cublasSgemm_v2, float, DATA_F32, COMPUTE_32F)
PLAIN(cublasDgemm_v2, double, DATA_F64, COMPUTE_64F)
STRIDED(cublasSgemmStridedBatched, float, DATA_F32, COMPUTE_32F)
STRIDED(cublasDgemmStridedBatched, double, DATA_F64, COMPUTE_64F)
DEFINE(cublasSgemmEx,
       (handle_t handle, int op_a, int op_b, int m, int n, int k, const float *alpha, const void *a, int type_a, int lda, const void *b,
	int type_b, int ldb, const float *beta, void *c, int type_c, int ldc),
       (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc), COMPUTE_32F, .batch = 1,
       .a = { a, type_a, lda, 0 }, .b = { b, type_b, ldb, 0 }, .c = { c, type_c, ldc, 0 })
DEFINE(cublasGemmEx,
       (handle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda, const void *b,
	int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute, int algorithm),
       (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm), compute,
       .batch = 1, .a = { a, type_a, lda, 0 }, .b = { b, type_b, ldb, 0 }, .c = { c, type_c, ldc, 0 })
DEFINE(cublasGemmStridedBatchedEx,
       (handle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
	long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta, void *c, int type_c, int ldc,
	long long stride_c, int batch, int compute, int algorithm),
       (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c, batch,
	compute, algorithm),
       compute, .batch = batch, .a = { a, type_a, lda, stride_a }, .b = { b, type_b, ldb, stride_b },
       .c = { c, type_c, ldc, stride_c })

/* Of cuBLASLt: attributes, by their numbers. */
enum {
	LAYOUT_TYPE = 0,
	LAYOUT_ORDER = 1,
	LAYOUT_ROWS = 2,
	LAYOUT_COLUMNS = 3,
	LAYOUT_LEADING = 4,
	LAYOUT_BATCH = 5,
	LAYOUT_STRIDE = 6,
	LAYOUT_MODE = 8, /* since 12.4, perhaps earlier; 0: the batch's matrices are a stride apart, else by pointers or by groups */
};
enum {
	MATMUL_COMPUTE = 0,
	MATMUL_SCALE = 1,
	MATMUL_POINTERS = 2,
	MATMUL_OP_A = 3,
	MATMUL_OP_B = 4,
	MATMUL_EPILOGUE = 7,
	MATMUL_BIAS = 8,
	MATMUL_BIAS_STRIDE = 10,
	MATMUL_BIAS_TYPE = 26, /* since 11.8; a negative type: that of D */
};
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4 };

typedef struct layout *layout_t;
typedef struct matmul *matmul_t;

int cublasLtMatrixLayoutGetAttribute(layout_t layout, int attribute, void *to, size_t size, size_t *written);
int cublasLtMatmulDescGetAttribute(matmul_t matmul, int attribute, void *to, size_t size, size_t *written);

/* The attributes of a matrix in cuBLASLt. */
struct layout_facts {
	int32_t type, order, batch;
	uint64_t rows, columns;
	int64_t leading, stride;
};

static bool read_layout(const void *caller, layout_t layout, struct layout_facts *x)
{
	int (*const get)(layout_t, int, void *, size_t, size_t *) = NEXT("libcublasLt", cublasLtMatrixLayoutGetAttribute);
	const struct {
		int attribute;
		void *to;
		size_t size;
	} parts[] = {
		{ LAYOUT_TYPE, &x->type, sizeof(x->type) },	  { LAYOUT_ORDER, &x->order, sizeof(x->order) },
		{ LAYOUT_BATCH, &x->batch, sizeof(x->batch) },	  { LAYOUT_ROWS, &x->rows, sizeof(x->rows) },
		{ LAYOUT_COLUMNS, &x->columns, sizeof(x->columns) }, { LAYOUT_LEADING, &x->leading, sizeof(x->leading) },
		{ LAYOUT_STRIDE, &x->stride, sizeof(x->stride) },
	};

	int32_t mode = 0;

	if (layout == NULL || get == NULL)
		return false;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i)
		if (get(layout, parts[i].attribute, parts[i].to, parts[i].size, NULL) != BLAS_SUCCESS)
			return false;
	/* Without the attribute there are no other modes. */
	if (get(layout, LAYOUT_MODE, &mode, sizeof(mode), NULL) == BLAS_SUCCESS && mode != 0)
		return false;
	return x->order == 0 && x->rows <= INT32_MAX && x->columns <= INT32_MAX;
}

static bool read_matmul(const void *caller, matmul_t matmul, int attribute, void *to, size_t size)
{
	int (*const get)(matmul_t, int, void *, size_t, size_t *) = NEXT("libcublasLt", cublasLtMatmulDescGetAttribute);

	return get != NULL && get(matmul, attribute, to, size, NULL) == BLAS_SUCCESS;
}

/* Read the epilogue, the step after the product: none, or the addition of a bias. False for any other epilogue. */
static bool read_epilogue(const void *caller, matmul_t matmul, struct sing_product *p)
{
	int32_t epilogue, type = -1;
	int64_t stride = 0;

	if (!read_matmul(caller, matmul, MATMUL_EPILOGUE, &epilogue, sizeof(epilogue)))
		return false;
	if (epilogue == EPILOGUE_DEFAULT)
		return true;
	if (epilogue != EPILOGUE_BIAS || !read_matmul(caller, matmul, MATMUL_BIAS, &p->bias.at, sizeof(p->bias.at)) || p->bias.at == NULL ||
	    !read_matmul(caller, matmul, MATMUL_BIAS_STRIDE, &stride, sizeof(stride)) || (stride != 0 && p->batch > 1))
		return false;
	if (!read_matmul(caller, matmul, MATMUL_BIAS_TYPE, &type, sizeof(type)) || type < 0)
		type = p->d.type;
	p->bias.type = type;
	return true;
}

/* Describe the operation. False: the vendor's function is to be called. */
static bool read_operation(const void *caller, matmul_t matmul, const layout_t layouts[4], struct sing_product *p)
{
	struct sing_matrix *const to[] = { &p->a, &p->b, &p->c, &p->d };
	int32_t compute, scale, pointers, op_a, op_b;
	struct layout_facts x[4];

	if (matmul == NULL || !read_matmul(caller, matmul, MATMUL_COMPUTE, &compute, sizeof(compute)) ||
	    !read_matmul(caller, matmul, MATMUL_SCALE, &scale, sizeof(scale)) ||
	    !read_matmul(caller, matmul, MATMUL_POINTERS, &pointers, sizeof(pointers)) ||
	    !read_matmul(caller, matmul, MATMUL_OP_A, &op_a, sizeof(op_a)) || !read_matmul(caller, matmul, MATMUL_OP_B, &op_b, sizeof(op_b)))
		return false;
	for (int i = 0; i < 4; ++i) {
		if (!read_layout(caller, layouts[i], &x[i]) || x[i].batch != x[0].batch)
			return false;
		to[i]->type = x[i].type;
		to[i]->leading = x[i].leading;
		to[i]->stride = x[i].stride;
	}
	if (!covers_compute(compute, p->a.type) || scale != (p->a.type == DATA_F64 ? DATA_F64 : DATA_F32) || pointers != 0 ||
	    !is_operation(op_a) || !is_operation(op_b))
		return false;
	p->turns_a = op_a != OP_N;
	p->turns_b = op_b != OP_N;
	p->m = (int64_t)x[3].rows;
	p->n = (int64_t)x[3].columns;
	p->k = (int64_t)(p->turns_a ? x[0].rows : x[0].columns);
	p->batch = x[3].batch;
	return (int64_t)(p->turns_a ? x[0].columns : x[0].rows) == p->m && (int64_t)(p->turns_b ? x[1].columns : x[1].rows) == p->k &&
	       (int64_t)(p->turns_b ? x[1].rows : x[1].columns) == p->n && (int64_t)x[2].rows == p->m && (int64_t)x[2].columns == p->n &&
	       read_epilogue(caller, matmul, p);
}

EXPORT int cublasLtMatmul(void *handle, matmul_t matmul, const void *alpha, const void *a, layout_t layout_a, const void *b,
			  layout_t layout_b, const void *beta, const void *c, layout_t layout_c, void *d, layout_t layout_d,
			  const void *algorithm, void *workspace, size_t size, CUstream stream);

int cublasLtMatmul(void *handle, matmul_t matmul, const void *alpha, const void *a, layout_t layout_a, const void *b, layout_t layout_b,
		   const void *beta, const void *c, layout_t layout_c, void *d, layout_t layout_d, const void *algorithm, void *workspace,
		   size_t size, CUstream stream)
{
	const void *const caller = __builtin_return_address(0);
	__typeof__(cublasLtMatmul) *const next = NEXT("libcublasLt", cublasLtMatmul);
	const layout_t layouts[] = { layout_a, layout_b, layout_c, layout_d };
	struct sing_product p = { .alpha = alpha, .beta = beta, .stream = stream };
	CUresult r;

	if (handle != NULL && sing_products_chosen() && read_operation(caller, matmul, layouts, &p)) {
		p.a.at = a;
		p.b.at = b;
		p.c.at = c;
		p.d.at = d;
		if (sing_product_launch(&p, &r))
			return r == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_EXECUTION_FAILED;
	}
	return next == NULL ? BLAS_NOT_INITIALIZED
			    : next(handle, matmul, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d, algorithm, workspace, size,
				   stream);
}

void *sing_blas_call(const char *name)
{
#define CALL(name) { #name, (void *)name }
	static const struct {
		const char *name;
		void *call;
	} calls[] = {
		CALL(cublasSgemm_v2), CALL(cublasDgemm_v2), CALL(cublasSgemmStridedBatched), CALL(cublasDgemmStridedBatched),
		CALL(cublasSgemmEx), CALL(cublasGemmEx), CALL(cublasGemmStridedBatchedEx), CALL(cublasLtMatmul),
	};

	const char *chosen;

	if (strncmp(name, "cublas", 6) != 0)
		return NULL;
	/* Where the vendor's functions are chosen, a program that opens the library gets the library's own. */
	chosen = getenv(SING_BLAS_ENV);
	if (chosen == NULL || strcmp(chosen, SING_BLAS_NATIVE) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].call;
	return NULL;
}
