// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "../packet.h"
#include "../wire.h"

enum { MAX_FDS = 5, MAX_PACKET = 256 };

/*
 * Send a packet with descriptors on a connection of its own. Returns -1 with errno.
 *
 * The connection is made without ever waiting: while a process waits here, with a socket, it cannot be captured.
 */
static int send_packet(const char *packet, size_t len, const int *fds, size_t n)
{
	const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = SING_SRUN_SOCKET };
	const int sock = packet_connect(&addr, sizeof(addr), SOCK_NONBLOCK, 0);
	int rv;

	if (sock < 0)
		return (-1);
	rv = packet_send(sock, packet, len, fds, n);
	close_keeping_errno(sock);

	return (rv);
}

/*
 * Make a packet: the verb, then key=value strings, each with its NUL. Returns its
 * length.
 */
static size_t packet_of(char packet[MAX_PACKET], const char *verb, const char *key, int sig)
{
	int n;

	n = snprintf(packet, MAX_PACKET, "%s%c" SING_KEY_VERSION "=" SING_WIRE_VERSION "%c" SING_KEY_KEY "=%s", verb, 0, 0, key) + 1;
	if (sig)
		n += snprintf(packet + n, MAX_PACKET - (size_t)n, SING_KEY_SIGNAL "=%d", sig) + 1;

	return ((size_t)n);
}

bool try_again(int error)
{
	/*
	 * EAGAIN: proxyd has more to do than it can; EPIPE, ECONNRESET: proxyd has just
	 * ended.
	 */
	return (error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == EPIPE || error == ECONNRESET);
}

/*
 * Send a packet with n descriptors: the descriptor at index is the writing end of a new
 * pipe. Returns the pipe's other end, or -1 with errno.
 */
static int say_with_pipe(const char *packet, size_t len, int *fds, size_t n, size_t index)
{
	int status[2] = { -1, -1 };
	int saved = 0;
	int rv = -1;

	if (pipe2(status, O_CLOEXEC)) {
		saved = errno;
		goto out;
	}
	fds[index] = status[1];
	if (send_packet(packet, len, fds, n)) {
		saved = errno;
		goto out;
	}

	rv = status[0];
	status[0] = -1;

out:
	for (size_t i = 0; i < 2; ++i) {
		if (status[i] >= 0)
			close(status[i]);
	}
	errno = saved;

	return (rv);
}

int ask(const char *key, int call)
{
	char packet[MAX_PACKET];
	int fds[MAX_FDS] = { input_for_srun(), output_for_srun(1), output_for_srun(2), -1, call };

	return (say_with_pipe(packet, packet_of(packet, SING_SRUN, key, 0), fds, MAX_FDS, 3));
}

int ask_noted(void)
{
	char packet[MAX_PACKET];
	int fd = -1;

	return (say_with_pipe(packet, packet_of(packet, SING_REQUEUE, "", 0), &fd, 1, 0));
}

int ask_signal(const char *key, int sig)
{
	char packet[MAX_PACKET];
	const size_t len = packet_of(packet, SING_FORWARD, key, sig);

	return (send_packet(packet, len, NULL, 0));
}
