// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The terminal of a task of `srun --pty` (../terminal.h). As with Slurm's own, the first task of the step has a terminal,
 * and the others read and write /dev/null.
 */
#define _GNU_SOURCE
#include "warden.h"

#include "../terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LAST_READS = 64,   /* at the program's end: more than a terminal holds */
	REOPEN_PAUSE = 200, /* milliseconds until the terminal is looked at again after its last process has closed it */
};

/* The state of sing-terminal. */
struct driver {
	int master;	 /* of the terminal; -1 when sing-srun has gone */
	int sock;	 /* to sing-srun; -1 when it has gone */
	pid_t program;
	bool closed;	 /* no process has the terminal open now */
	struct buffer frames; /* from sing-srun */
	struct buffer keys;   /* that the terminal has not taken */
	struct buffer output; /* that sing-srun has not taken */
};

static volatile sig_atomic_t child_ended;

static void on_child(int sig)
{
	(void)sig;
	child_ended = 1;
}

bool asks_for_terminal(void)
{
	return (getenv(TERMINAL_VARIABLE));
}

bool find_terminal(struct terminal *t)
{
	const char *place = getenv(TERMINAL_VARIABLE);
	const char *rank = getenv("SLURM_PROCID");

	if (!place || !rank || parse_place(&t->place, place))
		return (false);
	t->first = strcmp(rank, "0") == 0;

	return (true);
}

/* --- the connection to sing-srun --- */

static int say_hello(int sock, const struct hub_place *p)
{
	struct buffer hello = { 0 };
	int rv;

	begin_frame(&hello, FRAME_HELLO, PMI_SECRET_SIZE);
	add_bytes(&hello, p->secret, PMI_SECRET_SIZE);
	rv = hello.failed ? -1 : write_all(sock, hello.bytes, hello.n);
	free_buffer(&hello);

	return (rv);
}

static void set_window(int master, const struct frame *f)
{
	const struct winsize size = {
		.ws_row = (unsigned short)number_at(f->bytes), .ws_col = (unsigned short)number_at(f->bytes + 4),
	};

	ioctl(master, TIOCSWINSZ, &size);
}

/* Carry out the frames that have come. Returns how many, or -1 if the bytes are no frames. */
static int obey_frames(struct driver *d)
{
	struct frame f;
	ssize_t n;
	int obeyed = 0;

	while ((n = find_frame(&d->frames, TERMINAL_READ_SIZE, &f)) > 0) {
		if (f.kind == FRAME_WINDOW && f.n == WINDOW_SIZE)
			set_window(d->master, &f);
		else if (f.kind == FRAME_KEYS)
			add_bytes(&d->keys, f.bytes, f.n);
		else
			return (-1);
		drop_bytes(&d->frames, (size_t)n);
		++obeyed;
	}

	return (n < 0 ? -1 : obeyed);
}

/* Connect to sing-srun, and wait for the size of its window. Returns -1 with errno. */
static int reach_srun(struct driver *d, const struct hub_place *p)
{
	int obeyed = 0;

	d->sock = connect_to_place(p);
	if (d->sock < 0 || say_hello(d->sock, p))
		return (-1);
	while (obeyed == 0) {
		const ssize_t n = read_into(&d->frames, d->sock, TERMINAL_READ_SIZE);

		if (n < 0)
			return (-1);
		obeyed = n == 0 ? -1 : obey_frames(d);
	}
	if (obeyed < 0)
		errno = ECONNRESET;

	return (obeyed < 0 ? -1 : 0);
}

/* sing-srun has gone: closing the terminal sends the program SIGHUP. */
static void leave_srun(struct driver *d)
{
	close(d->sock);
	close(d->master);
	d->sock = d->master = -1;
}

/* --- passing bytes on --- */

static bool has_failed(ssize_t n)
{
	return (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void take_frames(struct driver *d)
{
	const ssize_t n = read_into(&d->frames, d->sock, TERMINAL_READ_SIZE);

	if (n == 0 || has_failed(n) || obey_frames(d) < 0)
		leave_srun(d);
}

static void pass_keys(struct driver *d)
{
	const ssize_t n = write(d->master, d->keys.bytes, d->keys.n);

	if (n > 0)
		drop_bytes(&d->keys, (size_t)n);
	else if (has_failed(n))
		d->keys.n = 0; /* no process has the terminal */
}

/* Returns whether the terminal had output. */
static bool take_output(struct driver *d)
{
	const ssize_t n = read_into(&d->output, d->master, TERMINAL_READ_SIZE);

	d->closed = n < 0 && errno == EIO;

	return (n > 0);
}

static void pass_output(struct driver *d)
{
	const ssize_t n = send(d->sock, d->output.bytes, d->output.n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		drop_bytes(&d->output, (size_t)n);
	else if (has_failed(n))
		leave_srun(d);
}

static void wait_for_events(struct driver *d, struct pollfd p[2], const sigset_t *mask)
{
	const struct timespec pause = { .tv_nsec = REOPEN_PAUSE * 1000000L };
	const bool takes_output = d->output.n < TERMINAL_MOST && !d->closed;
	const bool takes_keys = d->keys.n < TERMINAL_MOST;

	p[0] = (struct pollfd){ .fd = d->closed ? -1 : d->master };
	p[0].events = (short)((takes_output ? POLLIN : 0) | (d->keys.n > 0 ? POLLOUT : 0));
	p[1] = (struct pollfd){ .fd = d->sock };
	p[1].events = (short)((takes_keys ? POLLIN : 0) | (d->output.n > 0 ? POLLOUT : 0));
	if (ppoll(p, 2, d->closed ? &pause : NULL, mask) < 0)
		p[0].revents = p[1].revents = 0;
	d->closed = false;
}

static void pass_on(struct driver *d, const struct pollfd p[2])
{
	if (d->master >= 0 && p[0].revents & POLLOUT)
		pass_keys(d);
	if (d->master >= 0 && p[0].revents & (POLLIN | POLLHUP))
		take_output(d);
	if (d->sock >= 0 && p[1].revents & POLLOUT)
		pass_output(d);
	if (d->sock >= 0 && p[1].revents & ~POLLOUT)
		take_frames(d);
}

/* --- the end --- */

/* Returns whether the program has ended. */
static bool reap_program(const struct driver *d, int *status)
{
	if (!child_ended)
		return (false);
	child_ended = 0;

	return (waitpid(d->program, status, WNOHANG) == d->program);
}

/* Show what the program has written last, and wait until sing-srun has read that. */
static void finish_output(struct driver *d)
{
	char unread[TERMINAL_READ_SIZE];

	for (int reads = 0; d->master >= 0 && reads < LAST_READS && take_output(d); ++reads)
		;
	if (d->sock < 0 || write_all(d->sock, d->output.bytes, d->output.n))
		return;
	/* If this process closed the connection with keys in it, the kernel would drop output that was not read. */
	shutdown(d->sock, SHUT_WR);
	for (;;) {
		const ssize_t n = read(d->sock, unread, sizeof(unread));

		if (n == 0 || has_failed(n))
			return;
	}
}

/* Become sing-terminal. All signals are blocked: they are for the program. */
static _Noreturn void drive_terminal(struct driver *d)
{
	struct pollfd p[2];
	sigset_t mask;
	int status;

	prctl(PR_SET_NAME, "sing-terminal");
	if (chdir("/")) {
		kill(d->program, SIGKILL);
		_exit(EXIT_NOT_STARTED);
	}
	sigfillset(&mask);
	sigdelset(&mask, SIGCHLD);
	while (!reap_program(d, &status)) {
		wait_for_events(d, p, &mask);
		pass_on(d, p);
	}
	finish_output(d);
	end_like(status);
}

/* --- the beginning --- */

/* Make a terminal. Returns its other side, or -1 with errno. */
static int make_terminal(struct driver *d)
{
	const int unlocked = 0;

	d->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (d->master < 0 || ioctl(d->master, TIOCSPTLCK, &unlocked))
		return (-1);

	return (ioctl(d->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
}

/* Make fd the descriptors 0, 1 and 2, and close fd. */
static int become_stdio(int fd)
{
	if (dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		return (-1);
	if (fd > 2)
		close(fd);

	return (0);
}

/* Close all descriptors but the two. */
static void close_others(int a, int b)
{
	const unsigned int low = (unsigned int)(a < b ? a : b);
	const unsigned int high = (unsigned int)(a < b ? b : a);

	if (low > 0)
		close_range(0, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, UINT_MAX, 0);
}

/* Fork the program, which returns 0 from here, or -1. */
static int split_program(struct driver *d, int child)
{
	const struct sigaction ours = { .sa_handler = on_child };
	struct sigaction was;

	/* Before the fork: if SIGCHLD were ignored, the program's status could be lost. */
	sigaction(SIGCHLD, &ours, &was);
	d->program = fork();
	if (d->program < 0)
		return (-1);
	if (d->program > 0) {
		close_others(d->master, d->sock);
		drive_terminal(d);
	}
	sigaction(SIGCHLD, &was, NULL);
	setsid();
	close(d->master);
	close(d->sock);

	return (ioctl(child, TIOCSCTTY, 0) < 0 || become_stdio(child) ? -1 : 0);
}

static int use_null(void)
{
	const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	return (fd < 0 ? -1 : become_stdio(fd));
}

int take_terminal(const struct terminal *t)
{
	struct driver d = { .master = -1, .sock = -1 };
	int child;

	if (!t->first)
		return (use_null());
	child = make_terminal(&d);
	if (child < 0) {
		fprintf(stderr, "singularity: srun --pty: a terminal cannot be made: %s\n", strerror(errno));
		return (-1);
	}
	if (reach_srun(&d, &t->place)) {
		fprintf(stderr, "singularity: srun --pty: the terminal of srun cannot be reached: %s\n", strerror(errno));
		return (-1);
	}

	return (split_program(&d, child));
}
