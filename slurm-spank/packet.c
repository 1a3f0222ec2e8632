// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "packet.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

void close_keeping_errno(int fd)
{
	const int saved = errno;

	close(fd);
	errno = saved;
}

int packet_connect(const struct sockaddr_un *addr, socklen_t addr_len, int flags, int seconds)
{
	const struct timeval limit = { .tv_sec = seconds };
	int sock;
	int rv;

	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (sock < 0)
		return (-1);
	if (seconds > 0) {
		setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	do {
		rv = connect(sock, (const struct sockaddr *)addr, addr_len);
	} while (rv < 0 && errno == EINTR);
	if (rv < 0) {
		close_keeping_errno(sock);
		return (-1);
	}

	return (sock);
}

int packet_send(int sock, const void *bytes, size_t len, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PACKET_MAX_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n > PACKET_MAX_FDS) {
		errno = EINVAL;
		return (-1);
	}
	if (n > 0) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do {
		sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);

	return (sent == (ssize_t)len ? 0 : -1);
}

ssize_t packet_receive(int sock, struct msghdr *msg)
{
	const struct msghdr whole = *msg;
	ssize_t n;

	do {
		n = recvmsg(sock, msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != 0 || msg->msg_controllen > 0)
		return (n);
	/*
	 * Linux looks for a packet, and then whether the other end has closed: a packet that is sent in between, before the
	 * close, is still there.
	 */
	*msg = whole;
	n = recvmsg(sock, msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	return (n > 0 ? n : 0);
}
