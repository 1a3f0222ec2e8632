// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done
// devices: 2
// cflags: -D_GNU_SOURCE
// software: processes share nothing on real devices

/* Memory pools that processes share: the calls that are allowed, and those that are not. */
#include "check.h"
#include "messages.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4 << 20, SMALL = 5000, DESCRIPTOR = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };

static int other; /* the other process */

static unsigned char byte_at(CUdeviceptr p)
{
	unsigned char c;

	OK(cuMemcpyDtoH(&c, p, 1));
	return (c);
}

static CUmemoryPool make_pool(int handle_types)
{
	CUmemPoolProps props;
	CUmemoryPool pool;

	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.handleTypes = handle_types;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	OK(cuMemPoolCreate(&pool, &props));
	return (pool);
}

static void *as_handle(int fd)
{
	return ((void *)(size_t)fd);
}

/* Memory that cannot be exported. */
static void check_refusals(CUmemoryPool pool, int fd, CUdeviceptr p, CUstream stream)
{
	const CUmemoryPool own = make_pool(0);
	CUmemPoolPtrExportData data;
	CUmemoryPool imported;
	CUdeviceptr plain, unexported;
	int unused;

	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&unused, own, DESCRIPTOR, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&unused, pool, DESCRIPTOR, 1));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&unused, pool, 2, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&imported, as_handle(fd), DESCRIPTOR, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&imported, as_handle(12345), DESCRIPTOR, 0));
	OK(cuMemAlloc(&plain, N));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, plain));
	OK(cuMemAllocFromPoolAsync(&unexported, N, own, stream));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, unexported));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, p + 64 * (CUdeviceptr)N));
	OK(cuMemFreeAsync(unexported, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemPoolDestroy(own));
	OK(cuMemFree(plain));
}

static void run_exporter(void)
{
	CUmemPoolPtrExportData large_data, small_data;
	CUdeviceptr large, small, again;
	CUmemoryPool pool, second;
	CUstream stream;
	int fd, second_fd, capable;

	open_context();
	OK(cuDeviceGetAttribute(&capable, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
	HOLDS(capable == 1);
	OK(cuDeviceGetAttribute(&capable, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	HOLDS(capable == DESCRIPTOR);
	OK(cuStreamCreate(&stream, 0));
	pool = make_pool(DESCRIPTOR);
	second = make_pool(DESCRIPTOR);
	OK(cuMemAllocFromPoolAsync(&large, N, pool, stream));
	OK(cuMemAllocFromPoolAsync(&small, SMALL, pool, stream));
	OK(cuMemsetD8Async(large, 1, N, stream));
	OK(cuMemsetD8Async(small, 2, SMALL, stream));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
	OK(cuMemPoolExportToShareableHandle(&second_fd, second, DESCRIPTOR, 0));
	check_refusals(pool, fd, large, stream);
	OK(cuMemPoolExportPointer(&large_data, large));
	OK(cuMemPoolExportPointer(&small_data, small));
	OK(cuStreamSynchronize(stream));
	say_descriptor(other, fd);
	say_descriptor(other, second_fd);
	send_bytes(other, &large_data, sizeof(large_data));
	send_bytes(other, &small_data, sizeof(small_data));
	close(fd);
	close(second_fd);
	meet_process(other); /* the importer has written */
	HOLDS(byte_at(large) == 11 && byte_at(large + N - 1) == 11 && byte_at(small + SMALL - 1) == 12);
	OK(cuMemFreeAsync(large, stream));
	OK(cuStreamSynchronize(stream));
	meet_process(other); /* freed */
	meet_process(other); /* the importer has looked */
	OK(cuMemAllocFromPoolAsync(&again, N, pool, stream));
	HOLDS(byte_at(small) == 12);
	OK(cuMemPoolDestroy(second));
	exit(0);
}

static void run_importer(void)
{
	CUmemPoolPtrExportData large_data, small_data;
	CUdeviceptr large, small, same, p;
	CUmemoryPool pool, second;
	CUmemAccess_flags flags;
	CUmemLocation where = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUstream stream;
	int fd, second_fd;

	open_context();
	OK(cuStreamCreate(&stream, 0));
	fd = hear_descriptor(other);
	second_fd = hear_descriptor(other);
	receive_bytes(other, &large_data, sizeof(large_data));
	receive_bytes(other, &small_data, sizeof(small_data));
	OK(cuMemPoolImportFromShareableHandle(&pool, as_handle(fd), DESCRIPTOR, 0));
	OK(cuMemPoolImportFromShareableHandle(&second, as_handle(second_fd), DESCRIPTOR, 0));
	close(fd);
	close(second_fd);
	OK(cuMemPoolGetAccess(&flags, pool, &where));
	HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&p, N, pool, stream));
	WANT(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, pool));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&p, second, &large_data));
	OK(cuMemPoolImportPointer(&large, pool, &large_data));
	OK(cuMemPoolImportPointer(&small, pool, &small_data));
	OK(cuMemPoolImportPointer(&same, pool, &large_data));
	HOLDS(same == large);
	HOLDS(byte_at(large) == 1 && byte_at(large + N - 1) == 1 && byte_at(small) == 2);
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(large));
	OK(cuMemFree(same));
	OK(cuMemsetD8Async(large, 11, N, stream));
	OK(cuMemsetD8Async(small, 12, SMALL, stream));
	OK(cuStreamSynchronize(stream));
	meet_process(other); /* written */
	meet_process(other); /* the exporter has freed the large allocation */
	HOLDS(byte_at(large) == 11);
	OK(cuMemPoolDestroy(pool));
	OK(cuMemsetD8Async(large, 13, N, stream));
	OK(cuMemFreeAsync(large, stream));
	OK(cuStreamSynchronize(stream));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&p, second, &large_data));
	OK(cuMemFree(small));
	meet_process(other); /* looked */
	exit(0);
}

int main(void)
{
	int ends[2], status;

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	for (int i = 0; i < 2; ++i) {
		if (fork() == 0) {
			other = ends[i];
			close(ends[1 - i]);
			(i == 0 ? run_exporter : run_importer)();
		}
	}
	close(ends[0]);
	close(ends[1]);
	for (int i = 0; i < 2; ++i)
		HOLDS(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	puts("done");
	return (0);
}
