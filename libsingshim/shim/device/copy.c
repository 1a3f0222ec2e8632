// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Copies between the program's memory and a device's. How the bytes travel:
 *
 *	few	in the message, or in its answer
 *	more	the server reads or writes the process's memory when the copy is carried out; where the kernel forbids
 *		the server that, the bytes travel in pieces through the ring, several at a time
 *
 * A call returns when CUDA says: with memory that is not pinned, when the program may write the memory again, or
 * when the memory is filled; with pinned memory an asynchronous copy is only posted. A copy that a stream captures
 * is always posted, by its address.
 */
#include "attach.h"
#include "capture.h"
#include "context.h"
#include "copy.h"
#include "gen_abi.h"
#include "hostmem.h"
#include "pack.h"
#include "send.h"
#include "transport.h"

#include <stdlib.h>

/*
 * FEW: a longer copy is sent by its address. PIECE: the size of a piece. AHEAD: how many pieces are asked for at once.
 */
enum { FEW = 64 << 10, PIECE = 128 << 10, AHEAD = 3 };

/* Up to this size, an asynchronous copy to the device does not wait: the server takes the bytes from the ring. */
enum { STAGED = 1 << 20 };

bool sing_copy_is_captured(CUstream stream)
{
	return sing_capture_id(stream) != 0;
}

/* The error if captures do not allow a copy that is not captured itself. */
static CUresult check_captures(CUstream stream, bool waits)
{
	return sing_captures() ? sing_capture_allows(stream, waits) : CUDA_SUCCESS;
}

static CUresult result_of(int r)
{
	return r < 0 ? CUDA_ERROR_UNKNOWN : r;
}

/* A message that is carried out by addresses: dst, src, n, and a stream. */
static unsigned char *by_address(unsigned char message[32], uint64_t dst, uint64_t src, uint64_t n, CUstream stream)
{
	unsigned char *p = message;

	p = sing_put(p, &dst, 8);
	p = sing_put(p, &src, 8);
	p = sing_put(p, &n, 8);
	(void)sing_put(p, &stream, 8);
	return message;
}

static CUresult post_copy(uint32_t op, uint64_t dst, uint64_t src, size_t n, CUstream stream)
{
	unsigned char message[32];

	return result_of(sing_post(op, by_address(message, dst, src, n, stream), sizeof(message)));
}

static CUresult call_copy(uint32_t op, uint64_t dst, uint64_t src, size_t n, CUstream stream)
{
	unsigned char message[32];
	size_t got;

	return result_of(sing_call(op, by_address(message, dst, src, n, stream), sizeof(message), NULL, 0, &got));
}

/* Begin the message copy_in with n bytes. */
static int stage_in(struct ring_draft *d, bool asks, CUdeviceptr dst, const void *src, uint64_t n, CUstream stream)
{
	const struct ring_need need = { .op = SING_OP_copy_in, .call = asks };
	unsigned char *p;
	const int r = sing_stage(d, need, 32 + n, &p);

	if (r != 0)
		return r;
	p = sing_put(p, &dst, 8);
	p = sing_put(p, &n, 8);
	p = sing_put(p, src, n);
	p = sing_put(p, &n, 8);
	(void)sing_put(p, &stream, 8);
	return 0;
}

/* Begin the message copy_out. */
static int stage_out(struct ring_draft *d, CUdeviceptr src, uint64_t n, CUstream stream)
{
	const struct ring_need need = { .op = SING_OP_copy_out, .call = true, .room = (uint32_t)n + 8 };
	unsigned char *p;
	const int r = sing_stage(d, need, 24, &p);

	if (r != 0)
		return r;
	p = sing_put(p, &src, 8);
	p = sing_put(p, &n, 8);
	(void)sing_put(p, &stream, 8);
	return 0;
}

/*
 * Take an answer to copy_out, or to copy_in where dst is NULL: SING_AGAIN if the copy is to be asked for again.
 */
static CUresult take_answer(struct ring_draft *d, void *dst, uint64_t n)
{
	const unsigned char *p = d->args;
	CUresult r = d->status == SING_AGAIN ? SING_AGAIN : result_of(d->status);
	uint64_t count;

	if (r == CUDA_SUCCESS && dst != NULL) {
		if (d->length != n + 8 || (memcpy(&count, p, 8), count) != n)
			r = CUDA_ERROR_UNKNOWN;
		else
			memcpy(dst, p + 8, n);
	}
	ring_done(d);
	return r;
}

/*
 * Copy by pieces through the ring: host is read if in is true, else written. Several are under way at a time, in the
 * order of the stream. If the result is SING_AGAIN, all before *done was copied. The caller repeats the rest: a repeat
 * here would wait at the gate while answers are not taken.
 */
static CUresult some_pieces(bool in, CUdeviceptr device, char *host, size_t n, CUstream stream, size_t *done)
{
	struct ring_draft drafts[AHEAD];
	size_t asked = 0, taken = 0, first = 0, last = 0;
	CUresult r = CUDA_SUCCESS;

	while (taken < asked || (r == CUDA_SUCCESS && asked < n)) {
		const size_t left = n - asked, size = left < PIECE ? left : PIECE;

		if (r == CUDA_SUCCESS && left > 0 && last - first < AHEAD) {
			struct ring_draft *d = &drafts[last % AHEAD];
			const int s = in ? stage_in(d, true, device + asked, host + asked, size, stream) : stage_out(d, device + asked, size, stream);

			if (s == 0 && ring_ask(d) == RING_OK) {
				asked += size;
				++last;
				continue;
			}
			r = s == 0 ? CUDA_ERROR_UNKNOWN : result_of(s);
			if (last == first)
				break;
		}

		const size_t due = asked - taken < PIECE ? asked - taken : PIECE;
		struct ring_draft *d = &drafts[first++ % AHEAD];
		CUresult one = CUDA_ERROR_UNKNOWN;

		if (ring_await(d) == RING_OK)
			one = take_answer(d, in || r != CUDA_SUCCESS ? NULL : host + taken, due);
		if (r == CUDA_SUCCESS && one == SING_AGAIN)
			*done = taken;
		if (r == CUDA_SUCCESS)
			r = one;
		taken += due;
	}
	return r;
}

static CUresult by_pieces(bool in, CUdeviceptr device, char *host, size_t n, CUstream stream)
{
	CUresult r;

	do {
		size_t done = 0;

		r = some_pieces(in, device, host, n, stream, &done);
		device += done;
		host += done;
		n -= done;
	} while (r == SING_AGAIN);
	return r;
}

/* A copy for which the caller may wait: the copy is over when this returns. */
CUresult sing_copy_in(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	struct ring_draft d;
	int r;

	if (n > FEW && sing_is_reachable())
		return call_copy(SING_OP_cuMemcpyHtoDAsync_v2, dst, (uintptr_t)src, n, stream);
	if (n > FEW)
		return by_pieces(true, dst, (char *)(uintptr_t)src, n, stream);
	do {
		r = stage_in(&d, true, dst, src, n, stream);
		if (r != 0)
			return result_of(r);
		r = ring_call(&d) == RING_OK ? take_answer(&d, NULL, 0) : CUDA_ERROR_UNKNOWN;
	} while (r == SING_AGAIN);
	return r;
}

CUresult sing_copy_out(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	struct ring_draft d;
	int r;

	if (n > FEW && sing_is_reachable())
		return call_copy(SING_OP_cuMemcpyDtoHAsync_v2, (uintptr_t)dst, src, n, stream);
	if (n > FEW)
		return by_pieces(false, src, dst, n, stream);
	do {
		r = stage_out(&d, src, n, stream);
		if (r != 0)
			return result_of(r);
		r = ring_call(&d) == RING_OK ? take_answer(&d, dst, n) : CUDA_ERROR_UNKNOWN;
	} while (r == SING_AGAIN);
	return r;
}

/*
 * Check the context and the program's pointer, for every copy. Returns CUDA_SUCCESS with *empty if the copy has no
 * bytes.
 */
static CUresult check_copy(const void *host, size_t n, bool *empty)
{
	const CUresult r = sing_context_check();

	*empty = n == 0;
	if (r != CUDA_SUCCESS)
		return r;
	return host == NULL && n > 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult in_sync(CUdeviceptr dst, void *src, size_t n, CUstream stream)
{
	bool empty;
	CUresult r = check_copy(src, n, &empty);

	if (r == CUDA_SUCCESS)
		r = check_captures(stream, true);
	return r != CUDA_SUCCESS || empty ? r : sing_copy_in(dst, src, n, stream);
}

static CUresult in_async(CUdeviceptr dst, void *src, size_t n, CUstream stream)
{
	struct ring_draft d;
	bool empty;
	CUresult r = check_copy(src, n, &empty);

	if (r == CUDA_SUCCESS)
		r = check_captures(stream, false);
	if (r != CUDA_SUCCESS || empty)
		return r;
	if (sing_copy_is_captured(stream) || (sing_is_reachable() && sing_is_pinned((uintptr_t)src, n, NULL)))
		return post_copy(SING_OP_cuMemcpyHtoDAsync_v2, dst, (uintptr_t)src, n, stream);
	if (n > STAGED)
		return sing_copy_in(dst, src, n, stream);
	for (size_t at = 0; at < n && r == CUDA_SUCCESS; at += PIECE) {
		r = result_of(stage_in(&d, false, dst + at, (char *)src + at, n - at < PIECE ? n - at : PIECE, stream));
		if (r == CUDA_SUCCESS && ring_post(&d) != RING_OK)
			r = CUDA_ERROR_UNKNOWN;
	}
	return r;
}

static CUresult out_sync(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	bool empty;
	CUresult r = check_copy(dst, n, &empty);

	if (r == CUDA_SUCCESS)
		r = check_captures(stream, true);
	return r != CUDA_SUCCESS || empty ? r : sing_copy_out(dst, src, n, stream);
}

static CUresult out_async(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	bool empty;
	CUresult r = check_copy(dst, n, &empty);

	if (r == CUDA_SUCCESS)
		r = check_captures(stream, false);
	if (r != CUDA_SUCCESS || empty)
		return r;
	if (sing_copy_is_captured(stream) || (sing_is_reachable() && sing_is_pinned((uintptr_t)dst, n, NULL)))
		return post_copy(SING_OP_cuMemcpyDtoHAsync_v2, (uintptr_t)dst, src, n, stream);
	return sing_copy_out(dst, src, n, stream);
}

/* Each is defined together with its variant for callers with a default stream of their thread. */
#define SYNC(name, does, to, from)                                                                     \
	CUresult sing_##name(to dst, from src, size_t n) { return does(dst, src, n, NULL); }           \
	SING_PUBLIC(name);                                                                             \
	CUresult sing_##name##_ptds(to dst, from src, size_t n) { return does(dst, src, n, SING_THREAD_STREAM); } \
	SING_PUBLIC(name##_ptds)
#define ASYNC(name, does, to, from)                                                                    \
	CUresult sing_##name(to dst, from src, size_t n, CUstream stream) { return does(dst, src, n, stream); } \
	SING_PUBLIC(name);                                                                             \
	CUresult sing_##name##_ptsz(to dst, from src, size_t n, CUstream stream)                       \
	{                                                                                              \
		return does(dst, src, n, stream == NULL ? SING_THREAD_STREAM : stream);                 \
	}                                                                                              \
	SING_PUBLIC(name##_ptsz)

SYNC(cuMemcpyHtoD_v2, in_sync, CUdeviceptr, void *);
SYNC(cuMemcpyDtoH_v2, out_sync, void *, CUdeviceptr);
ASYNC(cuMemcpyHtoDAsync_v2, in_async, CUdeviceptr, void *);
ASYNC(cuMemcpyDtoHAsync_v2, out_async, void *, CUdeviceptr);

/*
 * Whether an address is a device's. This costs a round trip, so it is called only where neither side's address tells.
 */
static bool is_device(CUdeviceptr at)
{
	return sing_send_cuMemGetAddressRange_v2(0, NULL, NULL, at) == CUDA_SUCCESS;
}

/*
 * The addresses tell which memory each side is in, and the server knows as well: the copy is sent as a call,
 * so that it is over on return if a side is the program's memory.
 */
static CUresult any_sync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	bool empty;
	const CUresult r = check_copy("", n, &empty);

	if (r != CUDA_SUCCESS || empty)
		return r;
	if (sing_is_reachable() || sing_copy_is_captured(stream))
		return call_copy(SING_OP_cuMemcpyAsync, dst, src, n, stream);
	if (!is_device(dst) && !is_device(src)) {
		memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, n);
		return CUDA_SUCCESS;
	}
	if (!is_device(dst))
		return sing_copy_out((void *)(uintptr_t)dst, src, n, stream);
	if (!is_device(src))
		return sing_copy_in(dst, (void *)(uintptr_t)src, n, stream);
	return call_copy(SING_OP_cuMemcpyAsync, dst, src, n, stream);
}

static CUresult any_async(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	bool empty, to, from;
	const CUresult r = check_copy("", n, &empty);

	if (r != CUDA_SUCCESS || empty)
		return r;
	if (sing_copy_is_captured(stream))
		return post_copy(SING_OP_cuMemcpyAsync, dst, src, n, stream);
	to = sing_is_pinned(dst, n, NULL);
	from = sing_is_pinned(src, n, NULL);
	if (sing_is_reachable() && (to || from) && (to || is_device(dst)) && (from || is_device(src)))
		return post_copy(SING_OP_cuMemcpyAsync, dst, src, n, stream);
	return any_sync(dst, src, n, stream);
}

SYNC(cuMemcpy, any_sync, CUdeviceptr, CUdeviceptr);
ASYNC(cuMemcpyAsync, any_async, CUdeviceptr, CUdeviceptr);
