// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Packets with descriptors on SOCK_SEQPACKET sockets, as the plugin, sing-srun and sing-warden send them. */
#ifndef SING_PACKET_H
#define SING_PACKET_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum { PACKET_MAX_FDS = 16 };

/*
 * Connect to a socket. flags are for socket(2), beside SOCK_CLOEXEC. With SOCK_NONBLOCK, the call does not wait.
 * seconds limits each wait on the socket, that for the connection too; 0 is no limit. Returns the socket, or -1 with
 * errno.
 */
int packet_connect(const struct sockaddr_un *addr, socklen_t addr_len, int flags, int seconds);

/* Send a packet with n descriptors, at most PACKET_MAX_FDS. Returns 0, or -1 with errno. */
int packet_send(int sock, const void *bytes, size_t len, const int *fds, size_t n);

/*
 * Receive a packet, whose descriptors are close-on-exec. Returns the length, 0 at the end of the connection, or -1 with
 * errno.
 */
ssize_t packet_receive(int sock, struct msghdr *msg);

/* Close a descriptor without a change of errno. */
void close_keeping_errno(int fd);

#endif
