// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../packet.h"

char socket_path[108], socket_arg[128];

static int requests[2]; /* a socket pair, which keeps packets apart */

/* In a child: end when the parent ends, also if the parent has ended already. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

/*
 * The namespaces of a new process that lives as long as this process, in the order in which
 * they are joined.
 */
static size_t open_namespaces(int *fds)
{
	static const char *const kinds[] = { "mnt", "net", "uts", "ipc", "time_for_children", "pid_for_children" };
	char path[64];
	size_t n = 0;
	const pid_t parent = getpid();
	pid_t pid, first;
	int ready[2], alive[2];
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		err(1, "pipe");
	pid = fork();
	if (pid == 0) {
		die_with(parent);
		if (pipe2(alive, O_CLOEXEC))
			err(1, "pipe");
		if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWTIME) ||
		    sethostname("in-capsule", 10))
			err(1, "unshare");
		/*
		 * A PID namespace needs its first process before other processes can enter
		 * it.
		 */
		first = fork();
		if (first == 0) {
			/*
			 * This process cannot see its parent, but it sees the end of a pipe that
			 * only the parent holds.
			 */
			close(alive[1]);
			_exit(read(alive[0], &byte, 1) != 0);
		}
		if (write(ready[1], "", 1) != 1)
			err(1, "write");
		pause();
	}
	if (read(ready[0], &byte, 1) != 1)
		errx(1, "no namespaces");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kinds[i]);
		fds[n] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[n] < 0)
			err(1, "%s", path);
		++n;
	}

	return (n);
}

static void send_answer(int sock, const struct answer *a)
{
	int fds[PACKET_MAX_FDS];
	size_t n = 0;

	if (a->flags & NAMESPACES)
		n = open_namespaces(fds);
	for (; n < (a->flags & FIVE_FILES ? 5u : a->flags & NINE_FILES ? 9u : 0u); ++n)
		fds[n] = open("/dev/null", O_RDONLY);
	if (packet_send(sock, a->bytes, a->n, fds, n) < 0)
		err(1, "sendmsg");
}

/* Receive a packet for proxyd_got. */
static void take_request(int sock)
{
	static char bytes[SING_PACKET_SIZE];
	const ssize_t got = recv(sock, bytes, sizeof(bytes), 0);

	if (got > 0 && send(requests[1], bytes, (size_t)got, 0) != got)
		err(1, "send");
}

static _Noreturn void serve_answers(int listener, const struct answer *answers, size_t n)
{
	for (size_t i = 0; i < n; ++i) {
		const int sock = accept(listener, NULL, NULL);

		take_request(sock);
		if (answers[i].flags & HANG)
			pause();
		if (answers[i].flags & AFTER_TERMINATE)
			take_request(sock);
		if (answers[i].bytes)
			send_answer(sock, &answers[i]);
		close(sock);
	}
	unlink(socket_path);
	close(listener);
	pause(); /* the namespaces live as long as this process */
	_exit(0);
}

void proxyd_start(const struct answer *answers, size_t n)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const pid_t parent = getpid();
	int listener;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", socket_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(listener, 8) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests))
		err(1, "%s", socket_path);
	if (fork() == 0) {
		die_with(parent);
		serve_answers(listener, answers, n);
	}
	close(listener);
	close(requests[1]);
	sockets = 0; /* these sockets were made by the stub, not by the plugin */
}

void proxyd_got(struct message *m)
{
	const ssize_t n = recv(requests[0], m->bytes, sizeof(m->bytes), 0);

	if (n <= 0)
		errx(1, "proxyd got no request");
	m->used = (size_t)n;
	m->overflow = false;
	if (!message_valid(m))
		errx(1, "proxyd got a request that is no valid message");
}
