// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "ring.h"

#include "raw.h"
#include "thread_lane.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

/* How long to look for an answer before sleeping: ticks of the processor's clock, some microseconds. */
#if defined(__x86_64__)
enum { PATIENCE_MIN = 4096, PATIENCE_MAX = 131072 };
#else
enum { PATIENCE_MIN = 64, PATIENCE_MAX = 2048 };
#endif

struct ring_end ring_end;

static uint64_t read_ticks(void)
{
#if defined(__x86_64__)
	return (__builtin_ia32_rdtsc());
#else
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return (t);
#endif
}

static void pause_once(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

/* The half of order that changes with the gates (1), or with the messages (0). */
static _Atomic uint32_t *half_of_order(int i)
{
	return ((_Atomic uint32_t *)&ring_end.at->order + i);
}

/*
 * While the gate for calls is shut the server may be on its way to another node, or another
 * server on its way here, and that may take a year. The server opens the gate when it has come. So
 * if the gate is open, the server is looked for once more: it may have come, and opened the gate,
 * after the first look.
 */
bool ring_is_served(void)
{
	for (int i = 0; i < 2; i++)
		if (!ring_end.alive || ring_end.alive() || atomic_load(&ring_end.at->order) & SING_CALLS_SHUT)
			return (true);

	return (false);
}

/* Wait until *word is not value, or a wake, or the end of a moment. False: the server is gone. */
static bool wait_for_word(_Atomic uint32_t *word, uint32_t value)
{
	const struct timespec second = { .tv_sec = 1 };
	/* FUTEX_WAIT. Not private: the server is another process. */
	const long rv = raw6(SYS_futex, (long)word, 0, (long)value, (long)&second, 0, 0);

	return (rv != -ETIMEDOUT || ring_is_served());
}

static void wake_waiters(_Atomic uint32_t *word, int n)
{
	raw6(SYS_futex, (long)word, 1 /* FUTEX_WAKE */, n, 0, 0, 0);
}

void ring_nudge(void)
{
	const uint64_t old = atomic_fetch_and(&ring_end.at->order, ~(uint64_t)SING_ASLEEP);

	if (old & SING_ASLEEP)
		wake_waiters(half_of_order(0), 1);
}

/* Close the ring, because the server has gone. Returns RING_CLOSED. */
static enum ring_result close_ring(void)
{
	atomic_fetch_or(&ring_end.at->order, SING_CLOSED);
	return (RING_CLOSED);
}

/*
 * Whether fd is a memfd that is sealed as the server seals it: no process can make it shorter, which
 * would lead to a SIGBUS.
 */
static bool is_sealed(int fd)
{
	const long want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const long seals = raw(SYS_fcntl, fd, F_GET_SEALS, 0, 0);
	struct stat st;

	return (seals >= 0 && (seals & want) == want && !raw(SYS_fstat, fd, (long)&st, 0, 0) &&
		st.st_size == SING_RING_SIZE);
}

int ring_attach(int fd, bool (*alive)(void))
{
	struct sing_ring *at = MAP_FAILED;
	void *mine = MAP_FAILED;
	const int e = errno;
	int rv = EINVAL;

	if (ring_end.at && ring_is_mine()) {
		rv = EALREADY;
		goto out;
	}
	if (!is_sealed(fd))
		goto out;
	at = (void *)raw6(SYS_mmap, 0, SING_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mine = (void *)raw6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((unsigned long)at > -4096UL || (unsigned long)mine > -4096UL) {
		rv = ENOMEM;
		goto out;
	}
	if (at->magic != SING_RING_MAGIC || at->version != SING_RING_VERSION || at->lanes != SING_LANES ||
	    at->lane_units != SING_LANE_UNITS || at->size != SING_RING_SIZE) {
		rv = EPROTO;
		goto out;
	}
	if (raw(SYS_madvise, (long)at, SING_RING_SIZE, MADV_DONTFORK, 0) || raw(SYS_madvise, (long)mine, 4096, MADV_WIPEONFORK, 0)) {
		rv = errno;
		goto out;
	}
	rv = thread_lane_start();
	if (rv)
		goto out;
	atomic_store(&at->can, SING_ASKS_AGAIN);
	atomic_store((_Atomic uint64_t *)mine, 1);
	ring_end = (struct ring_end){ at, mine, alive };

out:
	if (rv && (unsigned long)at <= -4096UL)
		raw(SYS_munmap, (long)at, SING_RING_SIZE, 0, 0);
	if (rv && (unsigned long)mine <= -4096UL)
		raw(SYS_munmap, (long)mine, 4096, 0, 0);
	errno = e;

	return (rv);
}

static size_t round_up(size_t n, size_t to)
{
	return ((n + to - 1) / to * to);
}

/* Wait until the lane may be written up to the position end. */
static enum ring_result wait_for_room(struct thread_lane *s, uint32_t end)
{
	_Atomic uint32_t *word = &s->lane->head;

	for (;;) {
		uint32_t head = atomic_load_explicit(word, memory_order_acquire);

		s->head = head >> 1;
		if (((end - s->head) & SING_POSITION) <= SING_LANE_UNITS)
			return (RING_OK);
		if (!(head & SING_WAITS) && !atomic_compare_exchange_strong(word, &head, head | SING_WAITS))
			continue;
		if (ring_is_closed())
			return (RING_CLOSED);
		if (!wait_for_word(word, head | SING_WAITS))
			return (close_ring());
	}
}

enum ring_result ring_stage(struct ring_draft *d, const struct ring_need *need)
{
	const size_t counts = need->counts * sizeof(struct sing_count);
	const size_t args = counts + round_up(need->size, 8);
	const size_t front = sizeof(struct sing_record) + (need->call ? sizeof(struct sing_answer) : 0);
	const size_t body = args + need->bulk > need->room ? args + need->bulk : need->room;
	const size_t units = (front + body + SING_UNIT - 1) / SING_UNIT;
	enum ring_result rv = RING_OK;
	struct thread_lane *s;
	uint32_t begin;

	if (!ring_end.at)
		return (RING_NONE);
	if (__builtin_expect(!ring_is_mine(), 0))
		return (RING_FORKED);
	if (units > SING_RECORD_UNITS || need->size > SING_SIZE_MAX || need->counts > SING_COUNTS_MAX)
		return (RING_TOO_LONG);
	s = thread_lane_take(&d->moment);
	if (!s)
		return (ring_is_closed() ? RING_CLOSED : RING_BUSY);
	begin = s->tail;
	if (begin % SING_LANE_UNITS + units > SING_LANE_UNITS)
		begin = (uint32_t)round_up(begin, SING_LANE_UNITS) & SING_POSITION;
	if (__builtin_expect(((begin + (uint32_t)units - s->head) & SING_POSITION) > SING_LANE_UNITS, 0))
		rv = wait_for_room(s, begin + (uint32_t)units);
	if (rv != RING_OK) {
		thread_lane_give(s);
		return (rv);
	}

	struct sing_record *r = (struct sing_record *)(s->bytes + (size_t)SING_UNIT * (begin % SING_LANE_UNITS));
	char *at = (char *)r + front;

	*r = (struct sing_record){
		.position = begin,
		.op = need->op,
		.flags = need->call ? SING_CALL : 0,
		.counts = (uint16_t)need->counts,
		.size = need->size,
		.bulk = need->bulk,
		.room = need->room,
		.thread = s->thread,
	};
	if (need->call)
		*(struct sing_answer *)(r + 1) = (struct sing_answer){ .state = SING_AWAITED };
	if (counts)
		memcpy(at, need->count, counts);
	d->args = at + counts;
	d->bulk = at + args;
	d->held = s;
	d->record = r;
	d->units = (uint32_t)units;
	d->status = 0;
	d->length = 0;

	return (RING_OK);
}

/*
 * Wait at the gate in its state old. A thread that stands here is not inside the gate: its message
 * is not in the order yet, and may be put there in a year, by a process that was restored.
 */
static enum ring_result stand_at_gate(struct thread_lane *s, uint64_t old)
{
	atomic_store_explicit(&s->lane->inside, 0, memory_order_release);
	if (old & SING_CLOSED)
		return (RING_CLOSED);

	return (wait_for_word(half_of_order(1), (uint32_t)(old >> 32)) ? RING_OK : close_ring());
}

/* Put the message into the order, when the gates let it. */
static enum ring_result push_message(struct ring_draft *d)
{
	_Atomic uint64_t *order = &ring_end.at->order;
	struct thread_lane *s = d->held;
	struct sing_record *r = d->record;
	const uint32_t unit = s->unit + r->position % SING_LANE_UNITS;
	const bool call = r->flags & SING_CALL;
	uint64_t old = atomic_load_explicit(order, memory_order_relaxed);
	uint64_t spend;

	for (;;) {
		spend = r->counts && old & SING_COUNTED_SHUT ? SING_GRANT : 0;
		if (__builtin_expect(old & (SING_CLOSED | SING_CALLS_SHUT) || (spend && !(old & SING_GRANTS)), 0)) {
			const enum ring_result rv = stand_at_gate(s, old);

			if (rv != RING_OK)
				return (rv);
			old = atomic_load_explicit(order, memory_order_relaxed);
			continue;
		}
		if (call)
			atomic_store_explicit(&s->lane->inside, 1, memory_order_relaxed);
		r->prev = old & SING_LAST;
		if (atomic_compare_exchange_weak_explicit(order, &old,
							  ((old & ~(uint64_t)(SING_LAST | SING_ASLEEP)) | unit) - spend,
							  memory_order_acq_rel, memory_order_relaxed))
			break;
	}
	s->tail = (r->position + d->units) & SING_POSITION;
	if (old & SING_ASLEEP)
		wake_waiters(half_of_order(0), 1);

	return (RING_OK);
}

enum ring_result ring_post(struct ring_draft *d)
{
	struct thread_lane *s = d->held;
	const enum ring_result rv = push_message(d);

	/*
	 * The cache lines of the next message are in the cache of the server's processor: begin to
	 * fetch them.
	 */
	__builtin_prefetch(s->bytes + (size_t)SING_UNIT * (s->tail % SING_LANE_UNITS), 1);
	__builtin_prefetch(s->bytes + (size_t)SING_UNIT * ((s->tail + 1) % SING_LANE_UNITS), 1);
	thread_lane_give(s);

	return (rv);
}

/* Spin until the answer is there, but not longer than s->patience, which grows with each success. */
static bool look_for_answer(struct thread_lane *s, struct sing_answer *a)
{
	const uint64_t since = read_ticks();

	do {
		if (atomic_load_explicit(&a->state, memory_order_acquire) >= SING_ANSWERED) {
			s->patience = s->patience < PATIENCE_MAX / 2 ? s->patience * 2 : PATIENCE_MAX;
			return (true);
		}
		pause_once();
	} while (read_ticks() - since < s->patience);
	s->patience = s->patience / 2 > PATIENCE_MIN ? s->patience / 2 : PATIENCE_MIN;

	return (false);
}

/* Sleep until there is an answer. False: the ring was closed. */
static bool sleep_until(struct sing_answer *a)
{
	uint32_t state = SING_AWAITED;

	if (!atomic_compare_exchange_strong(&a->state, &state, SING_AWAITED_ASLEEP))
		return (true);
	while (atomic_load_explicit(&a->state, memory_order_acquire) == SING_AWAITED_ASLEEP) {
		if (!wait_for_word(&a->state, SING_AWAITED_ASLEEP))
			close_ring();
		if (ring_is_closed())
			return (atomic_load_explicit(&a->state, memory_order_acquire) == SING_ANSWERED);
	}

	return (true);
}

/* Wait for the answer. */
static enum ring_result await_answer(struct ring_draft *d)
{
	struct sing_answer *a = (struct sing_answer *)(d->record + 1);

	if ((!look_for_answer(d->held, a) && !sleep_until(a)) ||
	    atomic_load_explicit(&a->state, memory_order_acquire) != SING_ANSWERED) {
		ring_done(d);
		return (RING_CLOSED);
	}
	d->status = a->status;
	d->length = a->length;
	d->args = a + 1;

	return (RING_OK);
}

enum ring_result ring_call(struct ring_draft *d)
{
	const enum ring_result rv = push_message(d);

	if (rv == RING_OK)
		return (await_answer(d));
	ring_done(d);

	return (rv);
}

enum ring_result ring_ask(struct ring_draft *d)
{
	enum ring_result rv;

	thread_lane_asks(1);
	rv = push_message(d);
	if (rv != RING_OK) {
		thread_lane_asks(-1);
		ring_done(d);
	}

	return (rv);
}

enum ring_result ring_await(struct ring_draft *d)
{
	const enum ring_result rv = await_answer(d);

	thread_lane_asks(-1);

	return (rv);
}

void ring_done(struct ring_draft *d)
{
	atomic_store_explicit(&d->held->lane->inside, 0, memory_order_release);
	thread_lane_give(d->held);
}

void ring_drop(struct ring_draft *d)
{
	thread_lane_give(d->held);
}
