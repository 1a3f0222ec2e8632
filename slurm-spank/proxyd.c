// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "proxyd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"

/* There is no event for a socket on which a process begins to listen. */
enum { RETRY_MILLISECONDS = 100 };

/* The limit for a proxyd that dies of this very request: it must not be asked for ever. */
enum { MAX_DEATHS = 5 };

/* The result of an attempt. */
enum outcome { ANSWERED, ABSENT, DIED, FAILED };

static int connect_to(const char *path, int seconds)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);

	return (packet_connect(&addr, sizeof(addr), 0, seconds));
}

void reply_close(struct reply *reply)
{
	while (reply->n_fds > 0)
		close(reply->fds[--reply->n_fds]);
}

static void keep_fds(struct reply *reply, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		/*
		 * The kernel puts all descriptors of a single sendmsg into a single header, and the
		 * buffer has room for it.
		 */
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(reply->fds, CMSG_DATA(c), n * sizeof(int));
		reply->n_fds = n;
	}
}

static enum outcome receive_reply(int sock, struct reply *reply, char why[WHY_SIZE])
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SING_PACKET_FDS * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = reply->message.bytes, .iov_len = sizeof(reply->message.bytes) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	const char *verb;
	ssize_t n;

	n = packet_receive(sock, &msg);
	if (n == 0 || (n < 0 && errno == ECONNRESET)) {
		snprintf(why, WHY_SIZE, "proxyd ended before it answered");
		return (DIED);
	}
	if (n < 0) {
		snprintf(why, WHY_SIZE, "proxyd does not answer: %s", strerror(errno));
		return (FAILED);
	}
	keep_fds(reply, &msg);
	reply->message.used = (size_t)n;
	reply->message.overflow = (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
	if (message_valid(&reply->message)) {
		verb = message_verb(&reply->message);
		if (strcmp(verb, SING_OK) == 0)
			return (ANSWERED);
		if (strcmp(verb, SING_NO) == 0) {
			const char *number = message_get(&reply->message, SING_KEY_ERRNO);
			const char *reason = message_get(&reply->message, SING_KEY_REASON);

			if (!number || atoi(number) != EPROTONOSUPPORT)
				return (ANSWERED);
			snprintf(why, WHY_SIZE, "proxyd is of another version than this plugin%s%s", reason ? ": " : "",
				 reason ? reason : "");
			return (FAILED);
		}
	}
	snprintf(why, WHY_SIZE, "proxyd is of another version than this plugin: its answer cannot be understood");

	return (FAILED);
}

/* Wait until proxyd answers or ends. If SIGTERM comes first, tell proxyd, and go on waiting. */
static void await_answer(int sock, int sigterm)
{
	struct pollfd fds[] = { { .fd = sock, .events = POLLIN }, { .fd = sigterm, .events = POLLIN } };

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			return;
		if (fds[1].revents) {
			send(sock, SING_TERMINATE, sizeof(SING_TERMINATE), MSG_NOSIGNAL);
			fds[1].fd = -1;
		}
	}
}

static enum outcome attempt_request(const char *path, int seconds, int sigterm, const struct message *request,
				    struct reply *reply, char why[WHY_SIZE])
{
	enum outcome outcome;
	int sock;

	sock = connect_to(path, seconds);
	if (sock < 0) {
		snprintf(why, WHY_SIZE, "proxyd is not there: %s: %s", path, strerror(errno));
		return (errno == ENOENT || errno == ECONNREFUSED ? ABSENT : FAILED);
	}
	if (packet_send(sock, request->bytes, request->used, NULL, 0) == 0) {
		if (sigterm >= 0)
			await_answer(sock, sigterm);
		outcome = receive_reply(sock, reply, why);
	} else {
		snprintf(why, WHY_SIZE, "proxyd does not listen: %s", strerror(errno));
		outcome = errno == EPIPE || errno == ECONNRESET ? DIED : FAILED;
	}
	close(sock);
	if (outcome != ANSWERED)
		reply_close(reply);

	return (outcome);
}

static long milliseconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);

	return (t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

int proxyd_ask(const char *path, int retry, int seconds, int sigterm, const struct message *request,
	       struct reply *reply, char why[WHY_SIZE])
{
	static const struct timespec pause = { .tv_nsec = RETRY_MILLISECONDS * 1000000L };
	long until = milliseconds_now() + retry * 1000L;
	int deaths = 0;

	reply->n_fds = 0;
	if (request->overflow) {
		snprintf(why, WHY_SIZE, "the options and paths of this task are too long for proxyd");
		return (-1);
	}
	for (;;) {
		switch (attempt_request(path, seconds, sigterm, request, reply, why)) {
		case ANSWERED:
			return (0);
		case FAILED:
			return (-1);
		case DIED:
			if (++deaths == MAX_DEATHS)
				return (-1);
			until = milliseconds_now() + retry * 1000L;
			break;
		case ABSENT:
			break;
		}
		if (milliseconds_now() >= until)
			return (-1);
		nanosleep(&pause, NULL);
	}
}
