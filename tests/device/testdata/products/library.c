// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A library with the names of cuBLAS's and cuBLASLt's calls: handles have a stream and a pointer mode, and products are counted,
// not computed.
#include <stddef.h>
#include <string.h>

struct handle {
	void *stream;
	int mode;
};

int vendor_products;

int cublasGetStream_v2(const struct handle *h, void **stream)
{
	*stream = h->stream;
	return (0);
}

int cublasGetPointerMode_v2(const struct handle *h, int *mode)
{
	*mode = h->mode;
	return (0);
}

int cublasSgemm_v2(void)
{
	++vendor_products;
	return (0);
}

int cublasGemmStridedBatchedEx(void)
{
	++vendor_products;
	return (0);
}

int cublasLtMatmul(void)
{
	++vendor_products;
	return (0);
}

// Descriptors are lists of 32 attributes.
static int read_attribute(const long long *attributes, int attribute, void *to, size_t size)
{
	memcpy(to, &attributes[attribute], size);
	return (0);
}

int cublasLtMatrixLayoutGetAttribute(const long long *layout, int attribute, void *to, size_t size, size_t *written)
{
	(void)written;
	return (read_attribute(layout, attribute, to, size));
}

int cublasLtMatmulDescGetAttribute(const long long *matmul, int attribute, void *to, size_t size, size_t *written)
{
	(void)written;
	return (read_attribute(matmul, attribute, to, size));
}
