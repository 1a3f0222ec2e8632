// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * transport.h over the ring; wire/attach.h describes the parts of a message that the callers of transport.h do not
 * give.
 */
#include "../../wire/attach.h"

#include "attach.h"
#include "cache.h"
#include "capture.h"
#include "context.h"
#include "gen_abi.h"
#include "ops.h"
#include "send.h"
#include "share.h"
#include "stream.h"
#include "transport.h"

#include <string.h>

enum { CONTEXT = 8 };

/* A result for each library, in the order of enum sing_library. */
static const int not_initialized[] = { CUDA_ERROR_NOT_INITIALIZED, ncclInvalidUsage, NVML_ERROR_UNINITIALIZED };
static const int no_server[] = { CUDA_ERROR_NO_DEVICE, ncclUnhandledCudaError, NVML_ERROR_DRIVER_NOT_LOADED };
static const int unheard[] = { CUDA_ERROR_SYSTEM_NOT_READY, ncclSystemError, NVML_ERROR_DRIVER_NOT_LOADED };

static unsigned library_of(uint32_t op)
{
	const struct sing_op *o = sing_op_find(op);

	return o == NULL ? SING_DRIVER : o->library;
}

int sing_refusal(uint32_t op, enum ring_result r)
{
	return r == RING_FORKED ? not_initialized[library_of(op)] : SING_GONE;
}

/* Without a current context, the process may not even be attached. Returns 0 if the message may go on. */
static int check_state(uint32_t op)
{
	const unsigned lib = library_of(op);
	const uint32_t plain = op & ~SING_PER_THREAD;

	if (lib == SING_DRIVER && !sing_is_initialized() && plain >= SING_OP_OURS && plain != SING_OP_attach &&
	    plain != SING_OP_cuDriverGetVersion)
		return CUDA_ERROR_NOT_INITIALIZED;
	switch (sing_attach()) {
	case SING_ATTACHED:
		return 0;
	case SING_FORKED:
		return not_initialized[lib];
	case SING_NOWHERE:
		return no_server[lib];
	case SING_UNHEARD:
		return unheard[lib];
	}
	return SING_GONE;
}

/*
 * An execution fault is the result of every later call of any kind, except NVML's, which looks at devices from
 * outside.
 */
static int fault_result(uint32_t op)
{
	const uint32_t f = ring_fault();

	if (__builtin_expect(f == 0, 1))
		return 0;
	switch (library_of(op)) {
	case SING_DRIVER:
		/* A callback gets the fault as its status. */
		return op == SING_OP_host_func_next || op == SING_OP_host_func_done ? 0 : (int)f;
	case SING_NCCL:
		return ncclUnhandledCudaError;
	}
	return 0;
}

/* The result of a call that needs a context, if the current context is destroyed. */
static int ended_result(uint32_t op)
{
	const struct sing_op *o = sing_op_find(op);

	return o != NULL && o->library == SING_DRIVER && !o->free ? CUDA_ERROR_CONTEXT_IS_DESTROYED : 0;
}

int sing_stage(struct ring_draft *d, struct ring_need need, size_t n, unsigned char **at)
{
	const struct sing_context *current = sing_current;
	const uint64_t context = current == NULL ? 0 : current->handle;
	enum ring_result r;
	int rv;

	if (__builtin_expect(current == NULL, 0)) {
		rv = check_state(need.op);
		if (rv != 0)
			return rv;
	} else if (__builtin_expect(!atomic_load_explicit(&current->alive, memory_order_relaxed), 0)) {
		rv = ended_result(need.op);
		if (rv != 0)
			return rv;
	}
	/* A multiple of 8, so that the bulk follows at once. */
	need.size = n + CONTEXT < SING_SIZE_MAX ? (uint32_t)n + CONTEXT : SING_SIZE_MAX;
	need.bulk = (uint32_t)n + CONTEXT - need.size;
	r = ring_stage(d, &need);
	if (__builtin_expect(r != RING_OK, 0))
		return sing_refusal(need.op, r);
	rv = fault_result(need.op);
	if (__builtin_expect(rv != 0, 0)) {
		ring_drop(d);
		return rv;
	}
	memcpy(d->args, &context, CONTEXT);
	*at = (unsigned char *)d->args + CONTEXT;
	return 0;
}

/* Send a message by its address: its bytes are not in the ring. */
static int call_long_once(struct ring_need need, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	const struct sing_long l = {
		.address = (uintptr_t)in, .length = n, .answer = (uintptr_t)out, .room = room, .op = need.op,
	};
	struct ring_draft d;
	unsigned char *p;
	uint64_t length = 0;
	int rv;

	if (!sing_is_reachable()) {
		static _Atomic bool said;

		if (!atomic_exchange(&said, true))
			sing_say("a message of %zu bytes: the device server may not read this process's memory (kernel.yama.ptrace_scope)", n);
		return SING_GONE;
	}
	/* Check the real message here: sing_stage only sees SING_OP_LONG. */
	if (sing_current == NULL) {
		rv = check_state(need.op);
		if (rv != 0)
			return rv;
	}
	rv = fault_result(need.op);
	if (rv != 0)
		return rv;
	need.op = SING_OP_LONG;
	need.call = true;
	need.room = sizeof(length);
	rv = sing_stage(&d, need, sizeof(l), &p);
	if (rv != 0)
		return rv;
	memcpy(p, &l, sizeof(l));
	if (ring_call(&d) != RING_OK)
		return SING_GONE;
	rv = d.status;
	if (d.length == sizeof(length))
		memcpy(&length, d.args, sizeof(length));
	ring_done(&d);
	if (length > room)
		return SING_GONE;
	*got = length;
	return rv;
}

/* A call that a cut has interrupted is made again, and then waits until the cut is over. */
static int call_long(struct ring_need need, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	int rv;

	do
		rv = call_long_once(need, in, n, out, room, got);
	while (rv == SING_AGAIN);
	return rv;
}

static int call_once(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	const struct ring_need need = { .op = op, .call = true, .room = (uint32_t)room };
	struct ring_draft d;
	unsigned char *p;
	int rv;

	rv = sing_stage(&d, need, n, &p);
	if (rv != 0)
		return rv;
	if (n > 0)
		memcpy(p, in, n);
	if (ring_call(&d) != RING_OK)
		return SING_GONE;
	rv = d.length <= room ? d.status : SING_GONE;
	if (rv != SING_GONE && d.length > 0) {
		memcpy(out, d.args, d.length);
		*got = d.length;
	}
	ring_done(&d);
	return rv;
}

int sing_call(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	const struct ring_need need = { .op = op, .call = true, .room = (uint32_t)room };
	int rv;

	*got = 0;
	if (sing_captures() && sing_capture_watch(&(struct sing_message){ op, in, n, NULL, 0, out, room, got }, &rv))
		return rv;
	if (n > SING_RING_LONGEST || room > SING_RING_LONGEST)
		return call_long(need, in, n, out, room, got);
	do
		rv = call_once(op, in, n, out, room, got);
	while (rv == SING_AGAIN);
	return rv;
}

int sing_cached(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	const uint64_t context = sing_current == NULL ? 0 : sing_current->handle;
	int rv;

	if (sing_is_attached() && sing_cache_find(op, context, in, n, out, room, got))
		return 0;
	rv = sing_call(op, in, n, out, room, got);
	if (rv == 0)
		sing_cache_keep(op, context, in, n, out, room, *got);
	return rv;
}

static int post_message(const struct ring_need *need, const void *in, size_t n)
{
	struct ring_draft d;
	unsigned char *p;
	size_t got;
	int rv;

	if (n > SING_RING_LONGEST - need->counts * sizeof(struct sing_count))
		return call_long(*need, in, n, NULL, 0, &got);
	rv = sing_stage(&d, *need, n, &p);
	if (__builtin_expect(rv != 0, 0))
		return rv;
	if (n > 0)
		memcpy(p, in, n);
	return ring_post(&d) == RING_OK ? 0 : SING_GONE;
}

/* The server cannot return an error for a posted call, so that a missing context is found here. */
static int context_for(uint32_t op)
{
	const struct sing_context *current = sing_current;
	const struct sing_op *o;

	if (__builtin_expect(current != NULL && atomic_load_explicit(&current->alive, memory_order_relaxed), 1))
		return 0;
	o = sing_op_find(op);
	/* NCCL finds the device in the communicator; host_func_done is sent by the shim's own thread. */
	if (o == NULL || o->free || o->library != SING_DRIVER || o->op == SING_OP_host_func_done)
		return 0;
	if (current != NULL)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return sing_is_initialized() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
}

/* Wait until the server has come to all that this thread has posted. */
static int wait_for_ring(void)
{
	int version;
	size_t got = 0;

	return call_once(SING_OP_cuDriverGetVersion, NULL, 0, &version, sizeof(version), &got) < 0 ? SING_GONE : 0;
}

int sing_post(uint32_t op, const void *in, size_t n)
{
	const struct ring_need need = { .op = op };
	int rv;

	if (__builtin_expect(sing_captures(), 0) && sing_capture_watch(&(struct sing_message){ .op = op, .in = in, .n = n }, &rv))
		return rv;
	rv = context_for(op);
	if (rv == 0)
		rv = post_message(&need, in, n);
	if (__builtin_expect(sing_shares_events(), 0) && rv == 0 && sing_uses_shared_event(op, in, n))
		rv = wait_for_ring();
	return rv;
}

int sing_post_counted(uint32_t op, const void *counts, unsigned int k, const void *in, size_t n)
{
	const struct ring_need need = { .op = op, .counts = k, .count = counts };
	int rv;

	if (sing_captures() && sing_capture_watch(&(struct sing_message){ .op = op, .in = in, .n = n, .counts = counts, .k = k }, &rv))
		return rv;
	return post_message(&need, in, n);
}

uint64_t sing_handle_new(enum sing_class class)
{
	static _Atomic uint64_t last[SING_CLASS_COMM + 1];

	/* The classes in handles begin at 1, so that no handle is 1 or 2, the handles of the default streams. */
	const uint64_t step = class == SING_CLASS_STREAM ? SING_STREAM_STEP : 1;
	const uint64_t number = atomic_fetch_add_explicit(&last[class], 1, memory_order_relaxed) + 1;
	const uint64_t handle = (uint64_t)(class + 1) << SING_COUNT_PEER | number * step;

	if (class == SING_CLASS_STREAM)
		sing_stream_made(handle);
	return handle;
}

void sing_handle_drop(enum sing_class class, uint64_t handle)
{
	if (class == SING_CLASS_STREAM)
		sing_stream_ended(handle);
	if (class == SING_CLASS_EVENT)
		sing_event_ended(handle);
}

void sing_missed(const char *symbol, const char *why)
{
	const struct ring_need need = { .op = SING_OP_MISSED };
	const size_t n = strlen(symbol), k = strlen(why);
	struct ring_draft d;
	unsigned char *p;

	sing_say("%s is not supported: %s", symbol, why);
	if (!sing_is_attached() || sing_stage(&d, need, n + 2 + k, &p) != 0)
		return;
	memcpy(p, symbol, n);
	memcpy(p + n, ": ", 2);
	memcpy(p + n + 2, why, k);
	(void)ring_post(&d);
}

/*
 * Tell the server at the program's end to carry out the work that was posted before. A program that is
 * killed sends no such message, nor does a program that ends by _exit: CUDA drops their work too.
 */
__attribute__((destructor)) static void say_exit(void)
{
	const struct ring_need need = { .op = SING_OP_EXIT };
	struct ring_draft d;
	unsigned char *p;

	if (sing_is_attached() && sing_stage(&d, need, 0, &p) == 0)
		(void)ring_post(&d);
}
