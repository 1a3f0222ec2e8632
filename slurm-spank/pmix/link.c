// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The connection of sing-pmix to the hub of the step (uplink). Requests come from the library's thread, answers are read by the first thread, in
 * serve_hub. The lock is held for the list of requests and for writing; never while an answer is passed on, which may
 * have the library make its next request.
 */
#define _GNU_SOURCE
#include "pmix.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	READ_SIZE = 64 << 10,
	FROM_HUB = PMI_MAX_PAIRS + 4096,
	ABORT_PATIENCE = 2000, /* milliseconds, as in ../pmi/server.c */
};

/* A request that the hub has not answered yet. */
struct request {
	struct request *next;
	uint32_t number;
	bool of_name; /* the hub answers these in the order in which they were sent */
	on_answer answer;
	void *data;
};

static struct {
	pthread_mutex_t lock;
	pid_t program;
	int hub;   /* -1 without a connection */
	int abort; /* eventfd: this task has aborted */
	uint32_t numbers;
	struct request *first;
	struct buffer in;
} uplink = { .lock = PTHREAD_MUTEX_INITIALIZER, .hub = -1, .abort = -1 };

int reach_hub(const struct task *t)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = t->hub.address, .sin_port = t->hub.port,
	};
	struct buffer hello = { 0 };
	const int on = 1;
	int rv;

	uplink.program = t->program;
	uplink.abort = eventfd(0, EFD_CLOEXEC);
	if (uplink.abort < 0)
		return (-1);
	if (t->size == 1)
		return (0);
	uplink.hub = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (uplink.hub < 0)
		return (-1);
	do {
		rv = connect(uplink.hub, (const struct sockaddr *)&to, sizeof(to));
	} while (rv < 0 && errno == EINTR);
	if (rv < 0)
		return (-1);
	setsockopt(uplink.hub, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	begin_frame(&hello, FRAME_HELLO, HELLO_SIZE);
	add_number(&hello, (uint32_t)t->rank);
	add_number(&hello, (uint32_t)t->size);
	add_bytes(&hello, t->hub.secret, PMI_SECRET_SIZE);
	rv = hello.failed ? -1 : write_all(uplink.hub, hello.bytes, hello.n);
	free_buffer(&hello);

	return (rv);
}

/* --- requests --- */

/* Write a frame that is complete but for its header. Caller holds the lock. */
static int write_frame(enum frame_kind kind, const struct buffer *bytes)
{
	struct buffer header = { 0 };
	int rv = -1;

	begin_frame(&header, kind, bytes->n);
	if (uplink.hub >= 0 && !header.failed && !bytes->failed)
		rv = write_all(uplink.hub, header.bytes, header.n) || write_all(uplink.hub, bytes->bytes, bytes->n) ? -1 : 0;
	free_buffer(&header);

	return (rv);
}

/*
 * Send a frame that the hub will answer. The frame begins with its number, except for names. Frees bytes. Returns -1
 * if the hub is gone; then there will be no answer.
 */
static int send_request(enum frame_kind kind, bool of_name, struct buffer *bytes, on_answer answer, void *data)
{
	struct request *r = malloc(sizeof(*r));
	struct request **end = &uplink.first;
	struct buffer numbered = { 0 };
	int rv = -1;

	pthread_mutex_lock(&uplink.lock);
	if (!r)
		goto out;
	*r = (struct request){ .number = ++uplink.numbers, .of_name = of_name, .answer = answer, .data = data };
	if (!of_name)
		add_number(&numbered, r->number);
	add_bytes(&numbered, bytes->bytes, bytes->n);
	numbered.failed |= bytes->failed;
	if (write_frame(kind, &numbered))
		goto out;
	while (*end)
		end = &(*end)->next;
	*end = r;
	r = NULL;

	rv = 0;

out:
	pthread_mutex_unlock(&uplink.lock);
	free(r);
	free_buffer(&numbered);
	free_buffer(bytes);

	return (rv);
}

int collect(int kind, const char *name, const uint32_t *ranks, size_t n_ranks, const char *bytes, size_t n, on_answer answer,
	void *data)
{
	struct buffer b = { 0 };

	add_number(&b, (uint32_t)(8 + 4 * n_ranks + strlen(name)));
	add_number(&b, (uint32_t)kind);
	add_number(&b, (uint32_t)n_ranks);
	for (size_t i = 0; i < n_ranks; ++i)
		add_number(&b, ranks[i]);
	add_text(&b, name);
	add_bytes(&b, bytes, n);

	return (send_request(FRAME_COLLECT, false, &b, answer, data));
}

int ask_rank(uint32_t rank, on_answer answer, void *data)
{
	struct buffer b = { 0 };

	add_number(&b, rank);

	return (send_request(FRAME_ASK, false, &b, answer, data));
}

int ask_name(enum frame_kind kind, const char *name, const char *value, on_answer answer, void *data)
{
	struct buffer b = { 0 };

	encode_pair(&b, name, value);

	return (send_request(kind, true, &b, answer, data));
}

void tell_rank(uint32_t asker, uint32_t request, int status, const char *bytes, size_t n)
{
	struct buffer b = { 0 };

	add_number(&b, asker);
	add_number(&b, request);
	add_number(&b, (uint32_t)status);
	add_bytes(&b, bytes, n);
	pthread_mutex_lock(&uplink.lock);
	write_frame(FRAME_TELL, &b);
	pthread_mutex_unlock(&uplink.lock);
	free_buffer(&b);
}

void abort_step(void)
{
	const struct buffer nothing = { 0 };
	const uint64_t one = 1;

	pthread_mutex_lock(&uplink.lock);
	write_frame(FRAME_ABORT, &nothing);
	pthread_mutex_unlock(&uplink.lock);
	if (write(uplink.abort, &one, sizeof(one)) < 0)
		return; /* the task ends by itself, or srun ends it */
}

/* --- answers --- */

/* Kill the task's program, because an MPI program ends as a whole. The steward ends the rest. */
static _Noreturn void end_program(void)
{
	if (uplink.program > 0)
		kill(uplink.program, SIGKILL);
	_exit(0);
}

/* Take the request of an answer out of the list. Returns NULL if the list has no such request. */
static struct request *take_request(bool of_name, uint32_t number)
{
	struct request *found = NULL;

	pthread_mutex_lock(&uplink.lock);
	for (struct request **at = &uplink.first; *at && !found; at = found ? at : &(*at)->next) {
		if ((*at)->of_name != of_name || (!of_name && (*at)->number != number))
			continue;
		found = *at;
		*at = found->next;
		break;
	}
	pthread_mutex_unlock(&uplink.lock);

	return (found);
}

static int pass_answer(bool of_name, uint32_t number, int status, uint32_t context, const char *bytes, size_t n)
{
	struct request *r = take_request(of_name, number);

	if (!r)
		return (-1);
	r->answer(r->data, status, context, bytes, n);
	free(r);

	return (0);
}

/* Fail all open requests: without the hub no request can be completed. */
static void leave_hub(void)
{
	pthread_mutex_lock(&uplink.lock);
	close(uplink.hub);
	uplink.hub = -1;
	pthread_mutex_unlock(&uplink.lock);
	while (uplink.first)
		pass_answer(uplink.first->of_name, uplink.first->number, STATUS_LOST, 0, NULL, 0);
}

static int obey_frame(const struct frame *f, void (*on_question)(uint32_t asker, uint32_t request))
{
	switch (f->kind) {
	case FRAME_COLLECTED:
		if (f->n < 12)
			return (-1);
		return (pass_answer(
			false, number_at(f->bytes), (int)number_at(f->bytes + 4), number_at(f->bytes + 8), f->bytes + 12, f->n - 12));
	case FRAME_TOLD:
		if (f->n < 8)
			return (-1);
		return (pass_answer(false, number_at(f->bytes), (int)number_at(f->bytes + 4), 0, f->bytes + 8, f->n - 8));
	case FRAME_ASKED:
		if (f->n != 8)
			return (-1);
		on_question(number_at(f->bytes), number_at(f->bytes + 4));
		return (0);
	case FRAME_ANSWER:
		if (f->n < 1)
			return (-1);
		return (pass_answer(true, 0, f->bytes[0] == '1' ? STATUS_DONE : STATUS_LOST, 0, f->bytes + 1, f->n - 1));
	case FRAME_ABORT:
		end_program();
	default:
		return (-1);
	}
}

/*
 * Carry out the frames that have come; if until is not NULL, only up to the frame that sets *until. Returns -1 for a
 * frame that no hub sends.
 */
static int obey_frames(void (*on_question)(uint32_t asker, uint32_t request), const bool *until)
{
	struct frame f;
	ssize_t n = 0;

	while (!(until && *until) && (n = find_frame(&uplink.in, FROM_HUB, &f)) > 0) {
		if (obey_frame(&f, on_question))
			return (-1);
		drop_bytes(&uplink.in, (size_t)n);
	}
	if (uplink.in.n == 0)
		free_buffer(&uplink.in);

	return (n < 0 ? -1 : 0);
}

/* Wait for frames of the hub, and carry them out. Returns -1 if the hub is gone, or sends a frame that no hub sends. */
static int hear_hub(void (*on_question)(uint32_t asker, uint32_t request), const bool *until)
{
	if (read_into(&uplink.in, uplink.hub, READ_SIZE) <= 0)
		return (-1);

	return (obey_frames(on_question, until));
}

int wait_until(const bool *done)
{
	while (!*done) {
		if (hear_hub(NULL, done))
			return (-1);
	}

	return (0);
}

_Noreturn void serve_hub(void (*on_question)(uint32_t asker, uint32_t request))
{
	if (uplink.hub >= 0 && obey_frames(on_question, NULL)) /* frames behind the answer that ended wait_until */
		leave_hub();
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = uplink.hub, .events = POLLIN }, /* poll ignores -1 */
			{ .fd = uplink.abort, .events = POLLIN },
		};

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents) {
			/* The program is about to end, with a code of its own; some libraries hang instead. */
			poll(NULL, 0, ABORT_PATIENCE);
			end_program();
		}
		if (fds[0].revents && hear_hub(on_question, NULL))
			leave_hub();
	}
}
