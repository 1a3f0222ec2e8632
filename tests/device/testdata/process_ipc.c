// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done
// devices: 2
// says: cuIpcOpenMemHandle is not supported: the handle is of a process that another device server serves
// software: processes share nothing on real devices

/* Memory and events that processes share: the calls that are allowed, and those that are not. */
#include "check.h"
#include "messages.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4 << 20, LAZY = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS };

static int other; /* the other process */

static unsigned char byte_at(CUdeviceptr p)
{
	unsigned char c;

	OK(cuMemcpyDtoH(&c, p, 1));
	return (c);
}

/* Memory and events that cannot be exported. */
static void check_refusals(CUdeviceptr large)
{
	CUipcMemHandle handle;
	CUipcEventHandle event;
	CUdeviceptr p;
	CUstream stream;
	CUevent e;
	void *host;
	int capable;

	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, large + 64 * (CUdeviceptr)N));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(NULL, large));
	OK(cuMemHostAlloc(&host, 4096, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, (CUdeviceptr)(size_t)host));
	OK(cuStreamCreate(&stream, 0));
	OK(cuMemAllocAsync(&p, N, stream));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, p));
	OK(cuPointerGetAttribute((void **)&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	HOLDS(capable == 0);
	OK(cuPointerGetAttribute((void **)&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, large));
	HOLDS(capable == 1);
	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&event, e));
	WANT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&e, CU_EVENT_INTERPROCESS));
}

static void run_exporter(void)
{
	CUipcMemHandle handle, small_handle, same;
	CUipcEventHandle event_handle;
	CUdeviceptr large, small, neighbour, p;
	CUevent event, e;

	open_context();
	OK(cuMemAlloc(&large, N));
	OK(cuMemAlloc(&small, 5000));
	OK(cuMemAlloc(&neighbour, 5000));
	OK(cuMemsetD8(large, 1, N));
	OK(cuMemsetD8(small, 2, 5000));
	OK(cuMemsetD8(neighbour, 3, 5000));
	OK(cuCtxSynchronize());
	check_refusals(large);
	OK(cuIpcGetMemHandle(&handle, large));
	OK(cuIpcGetMemHandle(&same, large + 100));
	HOLDS(memcmp(&handle, &same, sizeof(handle)) == 0);
	OK(cuIpcGetMemHandle(&small_handle, small));
	HOLDS(memcmp(&handle, &small_handle, sizeof(handle)) != 0);
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&p, handle, LAZY));
	OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	OK(cuIpcGetEventHandle(&event_handle, event));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&e, event_handle));
	send_bytes(other, &handle, sizeof(handle));
	send_bytes(other, &small_handle, sizeof(small_handle));
	send_bytes(other, &event_handle, sizeof(event_handle));
	meet_process(other); /* the importer has opened them */
	OK(cuEventSynchronize(event)); /* which the other process has recorded */
	meet_process(other); /* the importer has written */
	HOLDS(byte_at(large) == 11 && byte_at(large + N - 1) == 11 && byte_at(small + 4999) == 12 && byte_at(neighbour) == 3);
	OK(cuMemFree(large));
	OK(cuEventDestroy(event));
	meet_process(other); /* freed and destroyed */
	meet_process(other); /* it has looked */
	OK(cuMemAlloc(&p, N));
	HOLDS(p == large && byte_at(p) == 0);
	OK(cuMemsetD8(p, 77, N));
	meet_process(other); /* something else is there */
	meet_process(other); /* it has looked */
	exit(0);
}

/* Handles that are wrong. */
static void check_forgeries(CUipcMemHandle handle)
{
	CUipcMemHandle forged = handle;
	CUdeviceptr p;

	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&p, handle, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&p, handle, 3));
	memset(&forged, 0, sizeof(forged));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&p, forged, LAZY));
	for (size_t i = 0; i < sizeof(handle); ++i) {
		const int server = i >= 8 && i < 24; /* which names the device server */

		forged = handle;
		forged.bytes[i] ^= 1;
		WANT(server ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&p, forged, LAZY));
	}
}

static void run_importer(void)
{
	CUipcMemHandle handle, small_handle, again_handle;
	CUipcEventHandle event_handle, forged;
	CUdeviceptr large, small, p, base;
	CUcontext first, second;
	CUevent event, e;
	CUstream stream;
	size_t n, before, after, total;
	unsigned char page[8192];
	int status;

	first = open_context();
	OK(cuMemGetInfo(&before, &total));
	receive_bytes(other, &handle, sizeof(handle));
	receive_bytes(other, &small_handle, sizeof(small_handle));
	receive_bytes(other, &event_handle, sizeof(event_handle));
	check_forgeries(handle);
	OK(cuIpcOpenMemHandle(&large, handle, LAZY));
	OK(cuIpcOpenMemHandle(&p, handle, LAZY));
	HOLDS(p == large);
	OK(cuIpcOpenMemHandle(&small, small_handle, LAZY));
	OK(cuMemGetInfo(&after, &total));
	HOLDS(before == after);
	OK(cuMemGetAddressRange(&base, &n, large + 17));
	HOLDS(base == large && n == N);
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFree(large));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&again_handle, large));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(large + 512));
	OK(cuCtxCreate(&second, 0, 0));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&p, handle, LAZY));
	OK(cuCtxCreate(&second, 0, 1)); /* of another device */
	OK(cuIpcOpenMemHandle(&p, handle, LAZY));
	HOLDS(p != large && byte_at(p) == 1);
	OK(cuCtxDestroy(second));
	OK(cuCtxSetCurrent(first));

	memcpy(&forged, &event_handle, sizeof(forged));
	forged.bytes[30] ^= 1;
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&e, forged));
	memcpy(&forged, &handle, sizeof(forged));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&e, forged));
	OK(cuIpcOpenEventHandle(&event, event_handle));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&forged, event));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventRecord(event, stream));
	meet_process(other); /* opened */
	HOLDS(byte_at(large) == 1 && byte_at(large + N - 1) == 1 && byte_at(small) == 2);
	OK(cuMemsetD8(large, 11, N));
	OK(cuMemsetD8(small, 12, 5000));
	OK(cuCtxSynchronize());
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(page, small, sizeof(page))); /* the neighbour is the exporter's own */
	meet_process(other); /* written */
	meet_process(other); /* freed */
	HOLDS(byte_at(large) == 11);
	OK(cuEventRecord(event, stream));
	OK(cuEventSynchronize(event));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&p, handle, LAZY));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&e, event_handle));
	meet_process(other); /* looked */
	meet_process(other); /* something else is there */
	HOLDS(byte_at(large) == 11);
	WANT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&p, handle, LAZY));
	meet_process(other); /* looked */
	HOLDS(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* The child may still count as attached after its time as a zombie. */
	while (cuIpcOpenMemHandle(&p, small_handle, LAZY) == CUDA_SUCCESS)
		OK(cuIpcCloseMemHandle(p));
	HOLDS(byte_at(large) == 11 && byte_at(small) == 12);
	OK(cuIpcCloseMemHandle(large)); /* the handle was opened twice */
	HOLDS(byte_at(large) == 11);
	OK(cuIpcCloseMemHandle(large));
	WANT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(large));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(page, large, 1));
	OK(cuEventDestroy(event));
}

int main(void)
{
	int ends[2];

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	const pid_t child = fork();

	HOLDS(child >= 0);
	other = ends[child == 0];
	close(ends[child != 0]);
	if (child == 0)
		run_exporter();
	run_importer();
	puts("done");
	return (0);
}
