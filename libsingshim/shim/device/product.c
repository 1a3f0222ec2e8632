// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Matrix products in the place of cuBLAS's. A product is a launch of a kernel of proxyd/softgpu/gemm/gemm.ptx, which the software
 * GPU knows and computes natively; so a product is ordered, captured and saved as launches are. The PTX describes the
 * parameters.
 */
#include "product.h"

#include "../../wire/attach.h"
#include "attach.h"
#include "context.h"
#include "load.h"
#include "transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The text of gemm.ptx, with a NUL. */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"sing_product_text:\n"
	".incbin \"gemm.ptx\"\n"
	".byte 0\n"
	".popsection\n");
extern const char sing_product_text[] __attribute__((visibility("hidden")));

/* Constants of gemm.ptx: the tile of a block, its threads, and flags. */
enum { TILE_ROWS = 128, TILE_COLUMNS = 96, THREADS = 256 };
enum { TURNS_A = 1, TURNS_B = 2, READS_C = 4, ADDS_BIAS = 8, TYPES_AT = 8 };

enum { MOST_BLOCKS = 65535 }; /* along y, and along z */

/* The kernels, once they are loaded. */
static struct {
	pthread_mutex_t lock;
	bool loaded;
	CUfunction single, twice;
} kernels = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool choose_products(void)
{
	const char *value = getenv(SING_BLAS_ENV);

	if (value == NULL || *value == 0 || strcmp(value, SING_BLAS_VENDOR) == 0)
		return false;
	if (strcmp(value, SING_BLAS_NATIVE) != 0) {
		sing_say("cuBLAS: %s is %s, which is neither %s nor %s: the vendor's library has the matrix products", SING_BLAS_ENV, value,
			 SING_BLAS_NATIVE, SING_BLAS_VENDOR);
		return false;
	}
	if (sing_is_software()) {
		sing_say("cuBLAS: matrix products are computed by the software GPU, in an order of its own (%s=%s)", SING_BLAS_ENV, value);
		return true;
	}
	sing_missed(SING_BLAS_ENV "=" SING_BLAS_NATIVE, "real GPUs have the vendor's matrix products alone");
	return false;
}

bool sing_products_chosen(void)
{
	enum { OPEN, NO, YES };
	static atomic_int chosen;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int is = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (is == OPEN) {
		pthread_mutex_lock(&lock);
		is = atomic_load_explicit(&chosen, memory_order_relaxed);
		if (is == OPEN) {
			is = choose_products() ? YES : NO;
			atomic_store_explicit(&chosen, is, memory_order_relaxed);
		}
		pthread_mutex_unlock(&lock);
	}
	return is == YES;
}

/* Load the kernels, also while a stream of this thread is captured: loading adds nothing to the graph. */
static CUresult load_kernels(void)
{
	int mode = 2; /* relaxed */
	CUlibrary library = NULL;
	CUresult r = cuThreadExchangeStreamCaptureMode(&mode);

	if (r != CUDA_SUCCESS)
		return r;
	r = cuLibraryLoadData(&library, (void *)(uintptr_t)sing_product_text, NULL, NULL, 0, NULL, NULL, 0);
	if (r == CUDA_SUCCESS)
		r = cuLibraryGetKernel((CUkernel *)&kernels.single, library, "singularity_gemm_f32");
	if (r == CUDA_SUCCESS)
		r = cuLibraryGetKernel((CUkernel *)&kernels.twice, library, "singularity_gemm_f64");
	kernels.loaded = r == CUDA_SUCCESS;
	(void)cuThreadExchangeStreamCaptureMode(&mode);
	return r;
}

/* The kernels are in each context, once the library is. */
static CUresult find_kernel(bool twice, CUfunction *f)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&kernels.lock);
	if (!kernels.loaded)
		r = load_kernels();
	*f = twice ? kernels.twice : kernels.single;
	pthread_mutex_unlock(&kernels.lock);
	return r;
}

/* The number of a type in flags, or -1. */
static int type_number(int type, bool twice)
{
	if (twice)
		return type == DATA_F64 ? 0 : -1;
	return type == DATA_F32 ? 0 : type == DATA_F16 ? 1 : type == DATA_BF16 ? 2 : -1;
}

/* Whether a matrix of so many rows can be passed on. */
static bool fits_kernel(const struct sing_matrix *x, int64_t rows)
{
	return x->leading >= (rows > 1 ? rows : 1) && x->leading <= INT32_MAX;
}

/* Whether gemm.ptx covers the product; *flags are then its types. */
static bool covers_product(const struct sing_product *p, bool twice, uint32_t *flags)
{
	const int types[] = { p->a.type, p->b.type, p->d.type, p->bias.at == NULL ? p->d.type : p->bias.type };

	if (p->m <= 0 || p->n <= 0 || p->k < 0 || p->batch <= 0 || p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX ||
	    p->batch > MOST_BLOCKS || (p->n + TILE_COLUMNS - 1) / TILE_COLUMNS > MOST_BLOCKS)
		return false;
	if (p->alpha == NULL || p->beta == NULL || !fits_kernel(&p->a, p->turns_a ? p->k : p->m) || !fits_kernel(&p->b, p->turns_b ? p->n : p->k) ||
	    !fits_kernel(&p->c, p->m) || !fits_kernel(&p->d, p->m))
		return false;
	if (p->a.type != p->b.type || p->c.type != p->d.type || (p->d.type != p->a.type && p->d.type != DATA_F32))
		return false;
	*flags = 0;
	for (int i = 0; i < 4; ++i) {
		const int type = type_number(types[i], twice);

		if (type < 0)
			return false;
		*flags |= (uint32_t)type << (TYPES_AT + 2 * i);
	}
	return true;
}

bool sing_product_launch(const struct sing_product *p, CUresult *result)
{
	const bool twice = p->a.type == DATA_F64;
	uint32_t flags, m, n, k, leading[4];
	CUfunction f;
	bool reads_c, is_zero;

	if (sing_current == NULL || !covers_product(p, twice, &flags))
		return false;
	is_zero = twice ? *(const double *)p->alpha == 0 : *(const float *)p->alpha == 0;
	reads_c = twice ? *(const double *)p->beta != 0 : *(const float *)p->beta != 0;
	flags |= (p->turns_a ? TURNS_A : 0u) | (p->turns_b ? TURNS_B : 0u) | (reads_c ? READS_C : 0u) | (p->bias.at != NULL ? ADDS_BIAS : 0u);
	m = (uint32_t)p->m;
	n = (uint32_t)p->n;
	k = is_zero ? 0 : (uint32_t)p->k; /* A and B are not read then */
	leading[0] = (uint32_t)p->a.leading;
	leading[1] = (uint32_t)p->b.leading;
	leading[2] = (uint32_t)p->c.leading;
	leading[3] = (uint32_t)p->d.leading;

	const void *const params[] = {
		&p->a.at, &p->b.at, &p->c.at, &p->d.at, &p->bias.at, &p->a.stride, &p->b.stride, &p->c.stride, &p->d.stride,
		&m, &n, &k, &leading[0], &leading[1], &leading[2], &leading[3], &flags, p->alpha, p->beta,
	};

	*result = find_kernel(twice, &f);
	if (*result == CUDA_SUCCESS)
		*result = cuLaunchKernel(f, (m - 1) / TILE_ROWS + 1, (n - 1) / TILE_COLUMNS + 1, (unsigned)p->batch, THREADS, 1, 1, 0,
					 p->stream, (void *)params, NULL);
	return true;
}
