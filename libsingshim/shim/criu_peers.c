// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The part of libsingshim-criu.so for a dump. criu asks the kernel for the unix sockets of the capsule's network
 * namespace and their peers (sock_diag(7)). The peer of a datagram socket that is connected to a daemon of the node,
 * such as syslog's /dev/log, is in the node's namespace. criu does not find that peer, and gives up (dump_one_unix_fd in
 * criu/sk-unix.c). So criu is told that the sockets in SINGULARITY_OUTSIDE_DATAGRAMS, a list of inode numbers, have no
 * peer. The sockets themselves stay as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool is_outside(unsigned int inode)
{
	const char *list = getenv("SINGULARITY_OUTSIDE_DATAGRAMS");

	while (list != NULL && *list != '\0') {
		char *end;
		unsigned long n = strtoul(list, &end, 10);

		if (end == list)
			return (false);
		if (n == inode)
			return (true);
		list = *end == ',' ? end + 1 : end;
	}

	return (false);
}

/* Writes 0 in the place of the peer's number, as the kernel does for a peer that has no inode. */
static void forget_peer(struct nlmsghdr *message)
{
	struct unix_diag_msg *socket = NLMSG_DATA(message);
	struct rtattr *attr = (struct rtattr *)((char *)socket + NLMSG_ALIGN(sizeof(*socket)));
	int left = (int)NLMSG_PAYLOAD(message, NLMSG_ALIGN(sizeof(*socket)));
	const unsigned int none = 0;

	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(attr) >= sizeof(none))
			memcpy(RTA_DATA(attr), &none, sizeof(none));
}

static void change_answer(void *answer, ssize_t size)
{
	struct nlmsghdr *message = answer;
	unsigned int left = (unsigned int)size;

	for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
		const struct unix_diag_msg *socket = NLMSG_DATA(message);

		if (message->nlmsg_type == SOCK_DIAG_BY_FAMILY && NLMSG_PAYLOAD(message, 0) >= sizeof(*socket) &&
		    socket->udiag_family == AF_UNIX && socket->udiag_type == SOCK_DGRAM && is_outside(socket->udiag_ino))
			forget_peer(message);
	}
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	static ssize_t (*next)(int, struct msghdr *, int);
	const struct sockaddr_nl *from;
	ssize_t size;

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "recvmsg");
	size = next(fd, message, flags);
	if (size <= 0 || message->msg_iovlen != 1 || message->msg_name == NULL || message->msg_namelen != sizeof(*from))
		return (size);
	from = message->msg_name;
	if (from->nl_family == AF_NETLINK && from->nl_pid == 0 && (size_t)size <= message->msg_iov[0].iov_len)
		change_answer(message->msg_iov[0].iov_base, size);

	return (size);
}
