// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Messages between the processes of a program, by a socket. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "check.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void send_bytes(int to, const void *what, size_t n)
{
	HOLDS(write(to, what, n) == (ssize_t)n);
}

static inline void receive_bytes(int from, void *what, size_t n)
{
	for (size_t got = 0; got < n;) {
		const ssize_t k = read(from, (char *)what + got, n - got);

		HOLDS(k > 0);
		got += (size_t)k;
	}
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static inline void say_descriptor(int to, int fd)
{
	union control control = { .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd)) } };
	char c = 0;
	struct iovec io = { &c, 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	HOLDS(sendmsg(to, &m, 0) == 1);
}

static inline int hear_descriptor(int from)
{
	union control control;
	char c;
	struct iovec io = { &c, 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	int fd;

	HOLDS(recvmsg(from, &m, 0) == 1);
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return (fd);
}

/* Both processes are here. */
static inline void meet_process(int other)
{
	char c = 0;

	send_bytes(other, &c, 1);
	receive_bytes(other, &c, 1);
}

#endif
