// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The hub's part for PMIx: collectives of some or all ranks, and questions of a rank to another rank. */
#define _GNU_SOURCE
#include "hub.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	SIGNATURE_HEADER = 8, /* kind, number of ranks */
	ASKS_OF_EACH_RANK = 4, /* most open questions of a rank; PMIx's library has one for a rank's keys */
};

static struct peer *find_rank(struct hub *h, int rank)
{
	for (size_t i = 0; i < h->n; ++i) {
		if (h->peers[i].rank == rank)
			return (&h->peers[i]);
	}

	return (NULL);
}

/*
 * Send a frame and free its bytes. If there was no memory for the bytes, the peer is dropped, for it would
 * wait for ever.
 */
static void send_whole(struct peer *p, enum frame_kind kind, struct buffer *bytes)
{
	if (bytes->failed)
		shutdown(p->fd, SHUT_RDWR);
	else
		send_frame(p, kind, bytes->bytes, bytes->n);
	free_buffer(bytes);
}

static void send_collected(
	struct hub *h, const struct contributor *c, uint32_t status, uint32_t context, const struct buffer *data)
{
	struct peer *p = find_rank(h, c->rank);
	struct buffer out = { 0 };

	if (!p)
		return;
	add_number(&out, c->request);
	add_number(&out, status);
	add_number(&out, context);
	if (data)
		add_bytes(&out, data->bytes, data->n);
	send_whole(p, FRAME_COLLECTED, &out);
}

/* --- collectives --- */

/* The i-th rank of a signature. */
static uint32_t member_at(const struct buffer *signature, size_t i)
{
	return (number_at(signature->bytes + SIGNATURE_HEADER + 4 * i));
}

static bool is_member(const struct buffer *signature, int rank)
{
	const size_t n = number_at(signature->bytes + 4);

	for (size_t i = 0; i < n; ++i) {
		if (member_at(signature, i) == (uint32_t)rank)
			return (true);
	}

	return (n == 0);
}

/* Count the members of a signature. Returns 0 if the signature is not one of this step. */
static size_t count_members(const struct hub *h, const struct buffer *signature)
{
	uint32_t last = 0;
	size_t n;

	if (signature->n < SIGNATURE_HEADER)
		return (0);
	n = number_at(signature->bytes + 4);
	if (n > (size_t)h->size || signature->n - SIGNATURE_HEADER < 4 * n)
		return (0);
	for (size_t i = 0; i < n; ++i) { /* in ascending order, so that each rank is there once */
		const uint32_t rank = member_at(signature, i);

		if (rank >= (uint32_t)h->size || (i > 0 && rank <= last))
			return (0);
		last = rank;
	}

	return (n ? n : (size_t)h->size);
}

static bool has_contributed(const struct collective *c, int rank)
{
	for (size_t i = 0; i < c->n; ++i) {
		if (c->contributors[i].rank == rank)
			return (true);
	}

	return (false);
}

static void free_collective(struct hub *h, struct collective *c)
{
	h->collected -= c->data.n;
	free_buffer(&c->signature);
	free_buffer(&c->data);
	free(c->contributors);
	free(c);
}

/* Take a collective out of the list, answer its contributors and free the collective. */
static void end_collective(struct hub *h, struct collective *c, uint32_t status)
{
	struct collective **at = &h->collectives;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->data.failed)
		status = STATUS_FULL;
	if (status == STATUS_DONE)
		++h->contexts;
	for (size_t i = 0; i < c->n; ++i)
		send_collected(h, &c->contributors[i], status, h->contexts, status == STATUS_DONE ? &c->data : NULL);
	free_collective(h, c);
}

/* The first collective of a signature to which a rank has not contributed yet. */
static struct collective *find_collective(struct hub *h, const struct buffer *signature, int rank)
{
	for (struct collective *c = h->collectives; c; c = c->next) {
		if (c->signature.n == signature->n && memcmp(c->signature.bytes, signature->bytes, signature->n) == 0 &&
		    !has_contributed(c, rank))
			return (c);
	}

	return (NULL);
}

static struct collective *begin_collective(struct hub *h, const struct buffer *signature, size_t members)
{
	struct collective *c = calloc(1, sizeof(*c));
	struct collective **end = &h->collectives;

	if (!c)
		return (NULL);
	c->members = members;
	c->contributors = calloc(members, sizeof(*c->contributors));
	add_bytes(&c->signature, signature->bytes, signature->n);
	if (!c->contributors || c->signature.failed) {
		free_collective(h, c);
		return (NULL);
	}
	while (*end)
		end = &(*end)->next;
	*end = c;

	return (c);
}

static bool has_lost_member(const struct hub *h, const struct buffer *signature)
{
	for (int rank = 0; rank < h->size; ++rank) {
		if (h->left[rank] && is_member(signature, rank))
			return (true);
	}

	return (false);
}

int take_collect(struct hub *h, struct peer *p, const struct frame *f)
{
	struct contributor me = { .rank = p->rank };
	struct buffer signature;
	struct collective *c;
	size_t size, members, n;

	if (f->n < 8)
		return (-1);
	size = number_at(f->bytes + 4);
	if (size > f->n - 8)
		return (-1);
	me.request = number_at(f->bytes);
	signature = (struct buffer){ .bytes = (char *)f->bytes + 8, .n = size }; /* within the frame */
	n = f->n - 8 - size;
	members = count_members(h, &signature);
	if (members == 0 || !is_member(&signature, p->rank) || n > PMI_MAX_PAIRS - h->collected)
		return (-1);
	if (has_lost_member(h, &signature)) {
		send_collected(h, &me, STATUS_LOST, 0, NULL);
		return (0);
	}
	c = find_collective(h, &signature, p->rank);
	if (!c)
		c = begin_collective(h, &signature, members);
	if (!c)
		return (-1);
	c->contributors[c->n++] = me;
	add_bytes(&c->data, f->bytes + 8 + size, n);
	if (!c->data.failed)
		h->collected += n;
	if (c->n == c->members)
		end_collective(h, c, STATUS_DONE);

	return (0);
}

/* --- questions --- */

/* Answer a question, which is no longer open. */
static void send_told(struct hub *h, const struct ask *a, uint32_t status, const char *keys, size_t n)
{
	struct peer *p = find_rank(h, a->asker);
	struct buffer out = { 0 };

	if (!p)
		return;
	--p->asks;
	add_number(&out, a->request);
	add_number(&out, status);
	add_bytes(&out, keys, n);
	send_whole(p, FRAME_TOLD, &out);
}

static void send_asked(struct peer *target, const struct ask *a)
{
	struct buffer out = { 0 };

	add_number(&out, (uint32_t)a->asker);
	add_number(&out, a->request);
	send_whole(target, FRAME_ASKED, &out);
}

int take_ask(struct hub *h, struct peer *p, const struct frame *f)
{
	struct peer *target;
	struct ask *a;

	if (f->n != 8 || number_at(f->bytes + 4) >= (uint32_t)h->size)
		return (-1);
	a = malloc(sizeof(*a));
	if (!a)
		return (-1);
	*a = (struct ask){
		.next = h->asks, .asker = p->rank, .request = number_at(f->bytes), .target = (int)number_at(f->bytes + 4),
	};
	++p->asks;
	if (h->left[a->target] || p->asks > ASKS_OF_EACH_RANK * h->size) {
		send_told(h, a, h->left[a->target] ? STATUS_LOST : STATUS_FULL, NULL, 0);
		free(a);
		return (0);
	}
	h->asks = a;
	target = find_rank(h, a->target);
	if (target)
		send_asked(target, a); /* if the rank is not connected yet, the question is sent when it is */

	return (0);
}

int take_tell(struct hub *h, const struct frame *f)
{
	enum { HEADER = 12 };

	if (f->n < HEADER)
		return (-1);
	for (struct ask **at = &h->asks; *at; at = &(*at)->next) {
		struct ask *a = *at;

		if ((uint32_t)a->asker != number_at(f->bytes) || a->request != number_at(f->bytes + 4))
			continue;
		*at = a->next;
		send_told(h, a, number_at(f->bytes + 8), f->bytes + HEADER, f->n - HEADER);
		free(a);
		break;
	}

	return (0); /* the asker may have left */
}

void send_asks(struct hub *h, struct peer *p)
{
	for (const struct ask *a = h->asks; a; a = a->next) {
		if (a->target == p->rank)
			send_asked(p, a);
	}
}

static void fail_asks(struct hub *h, int rank)
{
	struct ask **at = &h->asks;

	while (*at) {
		struct ask *a = *at;

		if (a->asker != rank && a->target != rank) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		if (a->asker != rank)
			send_told(h, a, STATUS_LOST, NULL, 0);
		free(a);
	}
}

/* --- the end --- */

void leave_collectives(struct hub *h, int rank)
{
	struct collective *next;

	h->left[rank] = true;
	for (struct collective *c = h->collectives; c; c = next) {
		next = c->next;
		if (is_member(&c->signature, rank))
			end_collective(h, c, STATUS_LOST);
	}
	fail_asks(h, rank);
}

void forget_collectives(struct hub *h)
{
	while (h->collectives) {
		struct collective *c = h->collectives;

		h->collectives = c->next;
		free_collective(h, c);
	}
	while (h->asks) {
		struct ask *a = h->asks;

		h->asks = a->next;
		free(a);
	}
	free(h->left);
	h->left = NULL;
	h->contexts = 0;
}
