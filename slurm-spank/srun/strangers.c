// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Connections to the port at which sing-srun awaits sing-terminal (terminal.c). Any process of the node can connect. A
 * stranger is a connection that has not shown the secret.
 *
 * CRIU captures no connection that was not accepted ("In-flight connection"), and no connection to a process outside of
 * the job. So each connection is accepted at once, also while sing-terminal is connected, and strangers are dropped
 * soon.
 */
#define _GNU_SOURCE
#include "srun.h"

#include "../terminal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MAX_STRANGERS = 8,
	STRANGER_READS = FRAME_HEADER + PMI_SECRET_SIZE,
	/* In milliseconds. */
	STRANGER_PATIENCE = 5000, /* for the secret */
	ACCEPT_PAUSE = 1000,	  /* while the kernel has no descriptor or memory for another connection */
};

struct stranger {
	int fd; /* -1: none */
	long until; /* by milliseconds_now */
	struct buffer in;
};

static int listener = -1;
static const char *secret;
static long accept_at; /* by milliseconds_now: the listener is not polled before */
static struct stranger strangers[MAX_STRANGERS];
static size_t next; /* the place of the next stranger */

void await_secret(int at, const char *shown)
{
	listener = at;
	secret = shown;
	for (size_t i = 0; i < MAX_STRANGERS; ++i)
		strangers[i].fd = -1;
}

static void drop_stranger(struct stranger *s)
{
	close(s->fd);
	free_buffer(&s->in);
	s->fd = -1;
}

void drop_strangers(void)
{
	for (size_t i = 0; i < MAX_STRANGERS && listener >= 0; ++i) {
		if (strangers[i].fd >= 0)
			drop_stranger(&strangers[i]);
	}
}

void drop_silent_strangers(void)
{
	const long now = milliseconds_now();

	for (size_t i = 0; i < MAX_STRANGERS && listener >= 0; ++i) {
		if (strangers[i].fd >= 0 && strangers[i].until <= now)
			drop_stranger(&strangers[i]);
	}
}

void close_listener(void)
{
	drop_strangers();
	if (listener >= 0)
		close(listener);
	listener = -1;
}

/* Returns -1 if there is no connection. */
static int accept_connection(void)
{
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* Without a descriptor or memory the connection stays, and the listener readable. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
		accept_at = milliseconds_now() + ACCEPT_PAUSE;

	return (fd);
}

void refuse_connection(void)
{
	const int fd = accept_connection();

	if (fd >= 0)
		close(fd);
}

static void add_stranger(void)
{
	struct stranger *s = &strangers[next];
	const int fd = accept_connection();

	if (fd < 0)
		return;
	if (s->fd >= 0)
		drop_stranger(s); /* the oldest */
	s->fd = fd;
	s->until = milliseconds_now() + STRANGER_PATIENCE;
	next = (next + 1) % MAX_STRANGERS;
}

/* Read from a stranger. Returns the socket if the secret has come, else -1. */
static int hear_stranger(struct stranger *s)
{
	const ssize_t n = read_into(&s->in, s->fd, STRANGER_READS - s->in.n);
	struct frame f;
	int sock;

	if (n < 0 && errno == EAGAIN)
		return (-1);
	if (n > 0 && find_frame(&s->in, PMI_SECRET_SIZE, &f) == 0)
		return (-1);
	if (n <= 0 || find_frame(&s->in, PMI_SECRET_SIZE, &f) != STRANGER_READS || f.kind != FRAME_HELLO ||
	    !same_secret(f.bytes, secret)) {
		drop_stranger(s);
		return (-1);
	}
	sock = s->fd;
	s->fd = -1;
	free_buffer(&s->in);

	return (sock);
}

static struct stranger *find_stranger(int fd)
{
	for (size_t i = 0; i < MAX_STRANGERS && listener >= 0; ++i) {
		if (strangers[i].fd == fd)
			return (&strangers[i]);
	}

	return (NULL);
}

bool has_connection(int fd)
{
	return (fd == listener || find_stranger(fd));
}

int hear_connection(int fd)
{
	struct stranger *s = find_stranger(fd);

	if (s)
		return (hear_stranger(s));
	add_stranger();

	return (-1);
}

nfds_t connection_events(struct pollfd *p)
{
	nfds_t n = 0;

	if (listener < 0)
		return (0);
	if (accept_at <= milliseconds_now())
		p[n++] = (struct pollfd){ .fd = listener, .events = POLLIN };
	for (size_t i = 0; i < MAX_STRANGERS; ++i) {
		if (strangers[i].fd >= 0)
			p[n++] = (struct pollfd){ .fd = strangers[i].fd, .events = POLLIN };
	}

	return (n);
}

int connection_patience(void)
{
	const long now = milliseconds_now();
	long first = accept_at > now ? accept_at : -1;

	if (listener < 0)
		return (-1);
	for (size_t i = 0; i < MAX_STRANGERS; ++i) {
		if (strangers[i].fd >= 0 && (first < 0 || strangers[i].until < first))
			first = strangers[i].until;
	}
	if (first < 0)
		return (-1);

	return (first > now ? (int)(first - now) : 0);
}
