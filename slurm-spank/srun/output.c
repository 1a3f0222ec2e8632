// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include "../warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * How output comes to a reader that may be slow:
 *
 *	task ─pipe─► slurmstepd ─TCP─► srun ─pipe─► this process ─► standard output
 *
 * A checkpoint does not capture slurmstepd and srun, so the output in them has to leave
 * them first. Output that the reader does not take stays in this process's memory, which is
 * captured. Otherwise this process keeps no more than a pipe does: the tasks are held back by their
 * reader, as without this process.
 *
 * Standard output and error that are files or terminals are srun's own: a file takes all
 * that comes.
 */
enum {
	PACED = 64 * 1024,	  /* bytes that are kept for a reader, usually */
	MOST = 256 * 1024 * 1024, /* the same, during a checkpoint */
	FIRST_SIZE = 2 * PACED,
};

/* relay carries the output of srun that is for a pipe or a socket. */
struct relay {
	int from, ours; /* the pipe to read from, and its end for srun; -1 when the reader has gone */
	int to;		/* where the reader reads */
	bool socket;
	bool shared; /* other processes share the file description of to, so that a write may wait */
	struct stat what; /* to is this file */
	char *bytes;
	size_t at, end, size; /* bytes[at..end] are the bytes that the reader has not taken */
};

static struct relay relays[2];
static size_t n_relays;
static struct relay *relay_of[3]; /* by descriptor */
static bool takes_all;

static size_t kept_bytes(const struct relay *r)
{
	return (r->end - r->at);
}

/* Whether fd can be written to, and its reader can be slow. */
static bool can_relay(int fd, const struct stat *st)
{
	int type;
	socklen_t len = sizeof(type);

	if (S_ISFIFO(st->st_mode))
		return ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY);

	return (S_ISSOCK(st->st_mode) && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM);
}

/*
 * Open the pipe fd once more, with O_NONBLOCK: that flag on fd itself would hold for all processes
 * that share its file description. This fails for a pipe that another user has made.
 */
static int open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

	return (open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

static int begin_relay(struct relay *r, int fd, const struct stat *st)
{
	int ends[2] = { -1, -1 };
	int rv = -1;

	*r = (struct relay){ .to = -1, .socket = S_ISSOCK(st->st_mode), .what = *st, .size = FIRST_SIZE };
	r->bytes = malloc(FIRST_SIZE);
	if (!r->socket)
		r->to = open_again(fd);
	if (r->to < 0) {
		r->shared = !r->socket;
		r->to = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	}
	if (!r->bytes || r->to < 0 || pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK))
		goto out;
	r->from = ends[0];
	r->ours = ends[1];
	ends[0] = ends[1] = -1;

	rv = 0;

out:
	for (size_t i = 0; i < 2; ++i) {
		if (ends[i] >= 0)
			close(ends[i]);
	}
	if (rv) {
		free(r->bytes);
		if (r->to >= 0)
			close(r->to);
	}

	return (rv);
}

void relay_output(void)
{
	for (int fd = 1; fd <= 2; ++fd) {
		struct stat st;

		if (fstat(fd, &st) || !can_relay(fd, &st))
			continue;
		if (n_relays > 0 && relays[0].what.st_dev == st.st_dev && relays[0].what.st_ino == st.st_ino)
			relay_of[fd] = relays; /* the same pipe, so that output and error keep their order */
		else if (begin_relay(&relays[n_relays], fd, &st) == 0)
			relay_of[fd] = &relays[n_relays++];
	}
}

int output_for_srun(int fd)
{
	const struct relay *r = relay_of[fd];

	return (r && r->ours >= 0 ? r->ours : fd);
}

void take_all_output(bool all)
{
	takes_all = all;
}

static bool may_take(const struct relay *r)
{
	return (r->from >= 0 && kept_bytes(r) < (takes_all ? MOST : PACED));
}

/* Make room for more bytes. Returns -1 without memory. */
static int make_room(struct relay *r)
{
	char *more;

	if (r->at > 0 && (kept_bytes(r) < PACED || r->at >= r->size / 2)) {
		memmove(r->bytes, r->bytes + r->at, kept_bytes(r));
		r->end = kept_bytes(r);
		r->at = 0;
	}
	if (r->size - r->end >= PACED)
		return (0);
	more = realloc(r->bytes, 2 * r->size);
	if (!more)
		return (-1);
	r->bytes = more;
	r->size *= 2;

	return (0);
}

/*
 * Take output of srun, as much as may be kept, but not more than a pipe holds: srun may write
 * without a pause, and this process must read proxyd's messages. Returns whether there was output.
 */
static bool take_output(struct relay *r)
{
	ssize_t n;

	if (!may_take(r))
		return (false);
	if (make_room(r)) {
		takes_all = false;
		return (false);
	}
	n = read(r->from, r->bytes + r->end, PACED);
	if (n > 0)
		r->end += (size_t)n;

	return (n > 0);
}

/*
 * How much is written at once: whole lines, not more than the kernel writes as a unit. So output of
 * other processes into the same pipe comes between lines, as it does when srun writes.
 */
static size_t next_piece(const struct relay *r)
{
	const size_t n = kept_bytes(r) < PIPE_BUF ? kept_bytes(r) : PIPE_BUF;
	const char *line = memrchr(r->bytes + r->at, '\n', n);

	return (line ? (size_t)(line + 1 - (r->bytes + r->at)) : n);
}

/* The reader has gone: close srun's pipe, so that srun's next write fails. */
static void give_up(struct relay *r)
{
	close(r->from);
	close(r->ours);
	r->from = r->ours = -1;
	r->at = r->end = 0;
}

/* Write a piece. Returns -1 with EAGAIN if the reader's pipe or socket is full. */
static ssize_t write_piece(const struct relay *r)
{
	const char *bytes = r->bytes + r->at;
	struct pollfd p = { .fd = r->to, .events = POLLOUT };

	if (r->socket)
		return (send(r->to, bytes, next_piece(r), MSG_DONTWAIT));
	/* A pipe that can be written to has room for a piece, unless another process fills it first. */
	if (r->shared && poll(&p, 1, 0) <= 0) {
		errno = EAGAIN;
		return (-1);
	}

	return (write(r->to, bytes, next_piece(r)));
}

/* Write as much as the reader takes without waiting. */
static void pass_output(struct relay *r)
{
	while (kept_bytes(r) > 0) {
		const ssize_t n = write_piece(r);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/*
			 * SIGPIPE, which is blocked here, is passed on to srun like any
			 * signal, and ends its step.
			 */
			give_up(r);
			return;
		}
		r->at += (size_t)n;
	}
	r->at = r->end = 0;
	if (r->size > FIRST_SIZE) {
		char *less = realloc(r->bytes, FIRST_SIZE);

		if (less) {
			r->bytes = less;
			r->size = FIRST_SIZE;
		}
	}
}

/* Whether a reader has not taken all output yet. */
static bool is_kept(void)
{
	for (size_t i = 0; i < n_relays; ++i) {
		if (kept_bytes(&relays[i]) > 0)
			return (true);
	}

	return (false);
}

/* Returns whether there may be more output. */
static bool serve_relays(void)
{
	bool took = false;

	for (size_t i = 0; i < n_relays; ++i) {
		pass_output(&relays[i]); /* makes room */
		took = take_output(&relays[i]) || took;
		pass_output(&relays[i]);
	}

	return (took || is_kept());
}

/* Fill p with the events of the relays to wait for. p has room for two for each relay. */
static nfds_t relay_events(struct pollfd *p)
{
	nfds_t n = 0;

	for (size_t i = 0; i < n_relays; ++i) {
		const struct relay *r = &relays[i];

		if (may_take(r))
			p[n++] = (struct pollfd){ .fd = r->from, .events = POLLIN };
		if (kept_bytes(r) > 0)
			p[n++] = (struct pollfd){ .fd = r->to, .events = POLLOUT };
	}

	return (n);
}

/* The smaller of two limits of a wait, of which -1 is none. */
static int shorter_wait(long a, long b)
{
	return ((int)(b < 0 || (a >= 0 && a < b) ? a : b));
}

void wait_readable(int fd, int milliseconds)
{
	struct pollfd p[2 + 2 * sizeof(relays) / sizeof(relays[0]) + TERMINAL_EVENTS] = { { .fd = fd, .events = POLLIN } };
	const long until = milliseconds_now() + milliseconds;

	for (;;) {
		const long left = until - milliseconds_now();
		nfds_t n = 1;
		nfds_t of_terminal;

		if (milliseconds >= 0 && left <= 0)
			return;
		of_terminal = terminal_events(p + n);
		n += of_terminal;
		n += relay_events(p + n);
		n += feeding_events(p + n);
		if (await_events(p, n, shorter_wait(milliseconds < 0 ? -1 : left, connection_patience())) < 0)
			return;
		if (p[0].revents)
			return; /* checked first: proxyd's message may say how much output is to be kept */
		serve_terminal(p + 1, of_terminal);
		serve_relays();
		feed_srun();
	}
}

void finish_output(void)
{
	struct pollfd p[2 * sizeof(relays) / sizeof(relays[0])];

	takes_all = false;
	while (serve_relays()) {
		int sig;

		/* Wait only if a slow reader has not taken all output. */
		await_events(p, relay_events(p), is_kept() ? -1 : 0);
		while ((sig = take_signal())) {
			if (sig != SIGPIPE && ends_by_default(sig))
				end_like(sig);
		}
	}
}
