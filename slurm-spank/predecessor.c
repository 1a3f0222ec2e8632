// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The part of the task's process: successor.h draws it. */
#define _GNU_SOURCE
#include "successor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exit_codes.h"
#include "packet.h"

pid_t successor_fork(int *sock)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return (-1);
	pid = fork();
	*sock = pair[pid == 0];
	close(pair[pid != 0]);
	if (pid < 0)
		close(*sock);

	return (pid);
}

static int write_whole(int fd, const char *text, size_t n)
{
	while (n > 0) {
		const ssize_t written = write(fd, text, n);

		if (written < 0 && errno != EINTR)
			return (-1);
		if (written > 0) {
			text += written;
			n -= (size_t)written;
		}
	}

	return (0);
}

/* A file in memory with the task's environment, as in /proc/PID/environ. */
static int store_environment(spank_t sp)
{
	const int fd = memfd_create("environment", MFD_CLOEXEC);
	char **env = NULL;

	if (fd < 0 || spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS)
		goto fail;
	for (; env && *env; ++env) {
		if (write_whole(fd, *env, strlen(*env) + 1))
			goto fail;
	}

	return (fd);

fail:
	if (fd >= 0)
		close(fd);

	return (-1);
}

static int send_handover(int sock, int environment, sigset_t mask)
{
	const int fds[GIVEN] = { 0, 1, 2, environment };

	return (packet_send(sock, &mask, sizeof(mask), fds, GIVEN));
}

static bool ends_by_default(int sig)
{
	return (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT);
}

/* Close all descriptors but keep. */
static void drop_descriptors(int keep)
{
	if (keep > 0)
		close_range(0, (unsigned int)keep - 1, 0);
	close_range((unsigned int)keep + 1, UINT_MAX, 0);
}

/* A signal to the task's process. Returns whether that process is to end by the signal. */
static bool pass_signal(pid_t successor, int sig, bool pass_on)
{
	if (sig == SIGCHLD || !pass_on || kill(successor, sig) == 0)
		return (false);

	/* While the successor is still root's and waits, such a signal ends the task, as it would end the successor. */
	return (errno == EPERM && ends_by_default(sig));
}

/*
 * Wait until the successor has ended, or steps back; then *back is true. All signals are blocked. Once the successor is the
 * warden, its end of the socket is closed: then this process closes its descriptors, or the program would see no end of
 * its standard input.
 */
static int await_end(int sock, pid_t successor, bool pass_on, bool *back)
{
	struct pollfd fds[2] = { { .fd = -1, .events = POLLIN }, { .fd = sock, .events = POLLIN } };
	struct signalfd_siginfo info;
	sigset_t all;
	int status = SIGKILL; /* if the successor is no child any more */
	char byte;

	sigfillset(&all);
	fds[0].fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	while (waitpid(successor, &status, fds[0].fd < 0 ? 0 : WNOHANG) == 0) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents && !*back) {
			*back = recv(sock, &byte, 1, MSG_DONTWAIT) == 1;
			if (!*back)
				drop_descriptors(fds[0].fd);
			fds[1].fd = -1;
		}
		if (read(fds[0].fd, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
		    pass_signal(successor, (int)info.ssi_signo, pass_on)) {
			status = (int)info.ssi_signo;
			break;
		}
	}
	if (*back)
		close(fds[0].fd);

	return (status);
}

bool successor_take_turn(spank_t sp, int sock, pid_t successor, bool pass_on, int *status)
{
	const int environment = store_environment(sp);
	sigset_t all, mask;
	bool back = false;

	/*
	 * proctrack/linuxproc signals no process that has slurmstepd's name (signals.h).
	 */
	prctl(PR_SET_NAME, "sing-task");
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	if (environment < 0 || send_handover(sock, environment, mask)) {
		dprintf(STDERR_FILENO, "singularity: the task cannot be handed over: %s\n", strerror(errno));
		*status = EXIT_NOT_STARTED << 8; /* the successor ends with this process */
		return (true);
	}
	close(environment);
	*status = await_end(sock, successor, pass_on, &back);
	if (back) {
		close(sock);
		sigprocmask(SIG_SETMASK, &mask, NULL);
	}

	return (!back);
}
