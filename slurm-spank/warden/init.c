// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../packet.h"

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

	memcpy(addr.sun_path + 1, SING_SOCKET, strlen(SING_SOCKET));

	return (packet_connect(&addr, len, 0, 0));
}

int send_message(int sock, const struct sing_message *m, const int *fds, size_t n)
{
	return (packet_send(sock, m, sizeof(*m), fds, n));
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
	got = packet_receive(sock, &msg);
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
