// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Memory pools that processes share. The handle by which a pool is exported is a descriptor, which a program hands to other
 * processes by a socket or by inheritance: a file in memory that has the server's handle, and is saved with the program.
 */
#define _GNU_SOURCE
#include "../raw.h"

#include "gen_abi.h"
#include "refusal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { FILE_DESCRIPTOR = 1 };

static const char unable[] = "the devices here share nothing between processes";
static const char elsewhere[] = "the handle is of a process that another device server serves: on another node, or of another job";

/* Returns the descriptor of a file with the handle, -1 on failure. */
static int make_file(const CUipcMemHandle *handle)
{
	const int fd = (int)raw6(SYS_memfd_create, (long)"singularity-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0);

	if (fd >= 0 && raw6(SYS_pwrite64, fd, (long)handle, sizeof(*handle), 0, 0, 0) == (long)sizeof(*handle) &&
	    raw6(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL, 0, 0, 0) == 0)
		return fd;
	if (fd >= 0)
		(void)raw6(SYS_close, fd, 0, 0, 0, 0, 0);
	return -1;
}

CUresult sing_cuMemPoolExportToShareableHandle(void *shared, CUmemoryPool pool, int type, unsigned long long flags)
{
	CUipcMemHandle handle;
	CUresult r;
	int fd;

	if (shared == NULL || type != FILE_DESCRIPTOR || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_pool_share(0, &handle, pool);
	if (r != CUDA_SUCCESS)
		return r == CUDA_ERROR_NOT_SUPPORTED ? SING_REFUSE("cuMemPoolExportToShareableHandle", unable) : r;
	fd = make_file(&handle);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(shared, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuMemPoolExportToShareableHandle);

CUresult sing_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shared, int type, unsigned long long flags)
{
	const int fd = (int)(uintptr_t)shared;
	CUipcMemHandle handle;
	CUresult r;

	if (pool == NULL || type != FILE_DESCRIPTOR || flags != 0 ||
	    raw6(SYS_pread64, fd, (long)&handle, sizeof(handle), 0, 0, 0) != (long)sizeof(handle))
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_pool_open(0, pool, &handle);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return SING_REFUSE("cuMemPoolImportFromShareableHandle", elsewhere);
	return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}
SING_PUBLIC(cuMemPoolImportFromShareableHandle);

/* The data that a program gets for an allocation has the length of a handle of CUDA's IPC. */
CUresult sing_cuMemPoolExportPointer(void *data, CUdeviceptr ptr)
{
	CUipcMemHandle handle;
	CUresult r;

	if (data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_pool_share_pointer(0, &handle, ptr);
	if (r == CUDA_SUCCESS)
		memcpy(data, &handle, sizeof(handle));
	return r == CUDA_ERROR_NOT_SUPPORTED ? SING_REFUSE("cuMemPoolExportPointer", unable) : r;
}
SING_PUBLIC(cuMemPoolExportPointer);

CUresult sing_cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, void *data)
{
	CUipcMemHandle handle;
	CUresult r;

	if (ptr == NULL || data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&handle, data, sizeof(handle));
	r = sing_send_pool_open_pointer(0, ptr, pool, &handle);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return SING_REFUSE("cuMemPoolImportPointer", elsewhere);
	return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}
SING_PUBLIC(cuMemPoolImportPointer);
