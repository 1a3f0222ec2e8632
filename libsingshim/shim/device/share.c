// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The calls of CUDA's IPC, and the list of the events that are shared by them. */
#include "gen_abi.h"
#include "ops.h"
#include "refusal.h"
#include "share.h"
#include "transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * Events that this process has exported or imported. A posted call takes effect when the server comes to the call. This
 * process may tell the other process at once that it has recorded such an event, and the server may come to the other
 * process's call first. So calls with such an event are waited for: see sing_post.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *events;
static size_t room;
static _Atomic size_t count;

bool sing_shares_events(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed) > 0;
}

static size_t find_event(uint64_t event)
{
	const size_t n = atomic_load_explicit(&count, memory_order_relaxed);
	size_t i = 0;

	while (i < n && events[i] != event)
		++i;
	return i;
}

static bool add_event(uint64_t event)
{
	bool there;

	pthread_mutex_lock(&lock);
	if (atomic_load(&count) == room) {
		const size_t more = room == 0 ? 16 : 2 * room;
		uint64_t *const larger = realloc(events, more * sizeof(*events));

		if (larger != NULL) {
			events = larger;
			room = more;
		}
	}
	there = find_event(event) < atomic_load(&count);
	if (!there && atomic_load(&count) < room) {
		events[atomic_load(&count)] = event;
		atomic_fetch_add(&count, 1);
		there = true;
	}
	pthread_mutex_unlock(&lock);
	return there;
}

void sing_event_ended(uint64_t event)
{
	size_t i;

	if (!sing_shares_events())
		return;
	pthread_mutex_lock(&lock);
	i = find_event(event);
	if (i < atomic_load(&count))
		events[i] = events[atomic_fetch_sub(&count, 1) - 1];
	pthread_mutex_unlock(&lock);
}

bool sing_uses_shared_event(uint32_t op, const void *in, size_t n)
{
	uint64_t event;
	size_t at;
	bool is;

	switch (op & ~SING_PER_THREAD) {
	case SING_OP_cuEventRecord:
	case SING_OP_cuEventRecordWithFlags:
		at = 0;
		break;
	case SING_OP_cuStreamWaitEvent:
		at = 8; /* behind the stream */
		break;
	default:
		return false;
	}
	if (n < at + sizeof(event))
		return false;
	memcpy(&event, (const char *)in + at, sizeof(event));
	pthread_mutex_lock(&lock);
	is = find_event(event) < atomic_load(&count);
	pthread_mutex_unlock(&lock);
	return is;
}

static const char unable[] = "the devices here share nothing between processes";
static const char elsewhere[] = "the handle is of a process that another device server serves: on another node, or of another job";

CUresult sing_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	const CUresult r = sing_send_ipc_share(0, handle, ptr);

	return r == CUDA_ERROR_NOT_SUPPORTED ? SING_REFUSE("cuIpcGetMemHandle", unable) : r;
}
SING_PUBLIC(cuIpcGetMemHandle);

CUresult sing_cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	const CUresult r = sing_send_ipc_open(0, ptr, &handle, flags);

	return r == CUDA_ERROR_NOT_SUPPORTED ? SING_REFUSE("cuIpcOpenMemHandle", elsewhere) : r;
}
SING_PUBLIC(cuIpcOpenMemHandle_v2);

CUresult sing_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	const CUresult r = sing_send_ipc_event(0, handle, event);

	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return SING_REFUSE("cuIpcGetEventHandle", unable);
	return r != CUDA_SUCCESS || add_event((uintptr_t)event) ? r : CUDA_ERROR_OUT_OF_MEMORY;
}
SING_PUBLIC(cuIpcGetEventHandle);

CUresult sing_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	const CUresult r = sing_send_ipc_open_event(0, event, &handle);

	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return SING_REFUSE("cuIpcOpenEventHandle", elsewhere);
	return r != CUDA_SUCCESS || add_event((uintptr_t)*event) ? r : CUDA_ERROR_OUT_OF_MEMORY;
}
SING_PUBLIC(cuIpcOpenEventHandle);
