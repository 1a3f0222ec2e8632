// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * How standard input comes to the tasks, unless it is a terminal or a device:
 *
 *	standard input ─► this process ─pipe─► srun ─TCP─► slurmstepd ─pipe─► warden ─pipe─► task
 *
 * At a checkpoint this process passes no more bytes on, and the bytes on their way reach the tasks' pipes, which are
 * captured. This process has both ends of the pipe to srun, so that bytes that srun has not read are captured with this
 * process.
 *
 * Like srun, this process reads ahead of the tasks; but only where srun does (--input), and once srun runs.
 */
enum { PIECE = 64 * 1024 };

enum kind { NOT_FED, PIPE, SOCKET, FILE_OF_BYTES };

static struct {
	enum kind kind;
	int theirs; /* srun's end */
	int to;	    /* -1 after the end of the input */
	bool wanted; /* srun runs, and reads its input */
	bool held;
	bool full; /* srun has not read enough */
} input = { .theirs = -1, .to = -1 };

static enum kind kind_of(int fd)
{
	struct stat st;
	int type;
	socklen_t len = sizeof(type);

	if (fstat(fd, &st) || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
		return (NOT_FED);
	if (S_ISFIFO(st.st_mode))
		return (PIPE);
	if (S_ISREG(st.st_mode))
		return (FILE_OF_BYTES);

	return (S_ISSOCK(st.st_mode) && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM ? SOCKET : NOT_FED);
}

void begin_feeding(void)
{
	int ends[2];

	input.kind = kind_of(0);
	if (input.kind == NOT_FED)
		return;
	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[1], F_SETFL, O_NONBLOCK)) {
		input.kind = NOT_FED; /* srun reads the input itself: a checkpoint reports it if need be */
		return;
	}
	input.theirs = ends[0];
	input.to = ends[1];
}

int input_for_srun(void)
{
	return (input.kind == NOT_FED ? 0 : input.theirs);
}

void want_input(bool wanted)
{
	input.wanted = wanted;
	input.held = false;
}

void hold_input(bool held)
{
	input.held = held;
}

static bool feeds_input(void)
{
	return (input.to >= 0 && input.wanted && !input.held);
}

static bool is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return (poll(&p, 1, 0) > 0);
}

/*
 * Pass on a piece of input. Called when bytes can be read and the pipe has room. Other processes may read from the same
 * pipe or socket, and be faster: then this returns -1 with EAGAIN. Returns 0 at the end.
 */
static ssize_t pass_piece(void)
{
	char bytes[PIPE_BUF];
	ssize_t n;

	if (input.kind == PIPE)
		return (splice(0, NULL, input.to, NULL, PIECE, SPLICE_F_NONBLOCK));
	n = input.kind == SOCKET ? recv(0, bytes, sizeof(bytes), MSG_DONTWAIT) : read(0, bytes, sizeof(bytes));
	if (n <= 0)
		return (n);

	/*
	 * A pipe that can be written to has room for a page: it takes all bytes, or none if srun has made its end
	 * smaller.
	 */
	for (ssize_t at = 0; at < n;) {
		const ssize_t wrote = write(input.to, bytes + at, (size_t)(n - at));
		struct pollfd p = { .fd = input.to, .events = POLLOUT };

		if (wrote > 0)
			at += wrote;
		else if (errno == EAGAIN)
			poll(&p, 1, -1);
		else if (errno != EINTR)
			return (-1);
	}

	return (n);
}

void feed_srun(void)
{
	/* Only a few pieces, so that this process reads proxyd's messages in time. */
	for (int pieces = 0; pieces < 16 && feeds_input(); ++pieces) {
		ssize_t n;

		input.full = !is_ready(input.to, POLLOUT);
		if (input.full || !is_ready(0, POLLIN))
			return;
		n = pass_piece();
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			close(input.to); /* srun sees the end of the input, also in any later run */
			input.to = -1;
		}
	}
}

nfds_t feeding_events(struct pollfd *p)
{
	if (!feeds_input())
		return (0);
	*p = input.full ? (struct pollfd){ .fd = input.to, .events = POLLOUT } : (struct pollfd){ .fd = 0, .events = POLLIN };

	return (1);
}
