// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pmi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Make room for n more bytes. */
static int make_room(struct buffer *b, size_t n)
{
	size_t room = b->room ? b->room : 1024;
	char *bytes;

	if (b->failed)
		return (-1);
	while (room - b->n < n)
		room *= 2;
	if (room == b->room)
		return (0);
	bytes = realloc(b->bytes, room);
	if (!bytes) {
		b->failed = true;
		return (-1);
	}
	b->bytes = bytes;
	b->room = room;

	return (0);
}

void add_bytes(struct buffer *b, const void *bytes, size_t n)
{
	if (n == 0 || make_room(b, n))
		return;
	memcpy(b->bytes + b->n, bytes, n);
	b->n += n;
}

void add_text(struct buffer *b, const char *text)
{
	add_bytes(b, text, strlen(text));
}

void add_number(struct buffer *b, uint32_t number)
{
	const uint32_t wire = htonl(number);

	add_bytes(b, &wire, sizeof(wire));
}

uint32_t number_at(const char *p)
{
	uint32_t wire;

	memcpy(&wire, p, sizeof(wire));

	return (ntohl(wire));
}

void drop_bytes(struct buffer *b, size_t n)
{
	if (n == 0)
		return;
	memmove(b->bytes, b->bytes + n, b->n - n);
	b->n -= n;
}

void free_buffer(struct buffer *b)
{
	free(b->bytes);
	*b = (struct buffer){ 0 };
}

int write_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return (-1);
		bytes += sent;
		n -= (size_t)sent;
	}

	return (0);
}

ssize_t read_into(struct buffer *b, int fd, size_t limit)
{
	ssize_t got;

	if (make_room(b, limit)) {
		errno = ENOMEM;
		return (-1);
	}
	do {
		got = read(fd, b->bytes + b->n, limit);
	} while (got < 0 && errno == EINTR);
	if (got > 0)
		b->n += (size_t)got;

	return (got);
}
