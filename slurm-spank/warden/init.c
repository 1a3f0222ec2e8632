// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_FDS = 4 };

struct sing_message message_of(enum sing_kind kind, const char *name)
{
	struct sing_message m = { .version = SING_VERSION, .kind = kind };

	if (name)
		memcpy(m.name, name, strnlen(name, SING_NAME_SIZE - 1));

	return (m);
}

int connect_init(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(SING_SOCKET);
	int sock;
	int rv;

	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return (-1);
	memcpy(addr.sun_path + 1, SING_SOCKET, strlen(SING_SOCKET));
	do {
		rv = connect(sock, (const struct sockaddr *)&addr, len);
	} while (rv < 0 && errno == EINTR);
	if (rv < 0) {
		const int saved = errno;

		close(sock);
		errno = saved;
		return (-1);
	}

	return (sock);
}

int send_message(int sock, const struct sing_message *m, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

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

	return (sent == (ssize_t)sizeof(*m) ? 0 : -1);
}

int receive_message(int sock, struct sing_message *m, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *c;
	ssize_t got;

	*fd = -1;
	do {
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return (-1);
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	if (got == (ssize_t)sizeof(*m) && m->version == SING_VERSION && !(msg.msg_flags & MSG_TRUNC))
		return (0);

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = got == 0 ? EPIPE : EPROTO;
	return (-1);
}
