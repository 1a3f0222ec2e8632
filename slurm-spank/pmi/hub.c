// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "hub.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 64 << 10, MAX_STRANGERS = 64, FIRST_PEER = 2, MEMORY_PAUSE = 100 /* ms */ };

/* --- sending --- */

/* Send the bytes that the socket takes without waiting, and keep the rest. */
static void send_bytes(struct peer *p, const char *bytes, size_t n)
{
	ssize_t sent = 0;

	if (p->out.n == 0) {
		sent = send(p->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0)
			sent = 0; /* the next read finds that the peer has gone */
	}
	add_bytes(&p->out, bytes + sent, n - (size_t)sent);
	if (p->out.failed)
		shutdown(p->fd, SHUT_RDWR); /* no memory: the next read ends, and the peer is dropped */
}

void send_frame(struct peer *p, enum frame_kind kind, const char *bytes, size_t n)
{
	struct buffer header = { 0 };

	begin_frame(&header, kind, n);
	send_bytes(p, header.bytes, header.n);
	if (n > 0)
		send_bytes(p, bytes, n);
	free_buffer(&header);
}

static void send_rest(struct peer *p)
{
	const ssize_t sent = send(p->fd, p->out.bytes, p->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent > 0)
		drop_bytes(&p->out, (size_t)sent);
	if (p->out.n == 0)
		free_buffer(&p->out);
}

/* --- peers --- */

/* Forget the step when all ranks have left: the same sing-srun may start the step again. */
static void forget_step(struct hub *h)
{
	h->size = h->fenced = 0;
	h->lost = h->aborted = false;
	free_buffer(&h->pairs);
	free_pairs(&h->names);
	forget_collectives(h);
}

/* Send LOST to the ranks that wait in a fence: no fence can be complete any more. */
static void fail_fences(struct hub *h)
{
	h->lost = true;
	h->fenced = 0;
	free_buffer(&h->pairs);
	for (size_t i = 0; i < h->n; ++i) {
		if (h->peers[i].fenced)
			send_frame(&h->peers[i], FRAME_LOST, NULL, 0);
		h->peers[i].fenced = false;
	}
}

static void drop_peer(struct hub *h, size_t i)
{
	struct peer gone = h->peers[i];

	h->peers[i] = h->peers[--h->n];
	close(gone.fd);
	free_buffer(&gone.in);
	free_buffer(&gone.out);
	h->full = false;
	if (gone.rank < 0)
		return;
	if (--h->ranks == 0) {
		forget_step(h);
		return;
	}
	fail_fences(h);
	leave_collectives(h, gone.rank);
}

static int make_room(struct hub *h)
{
	const size_t room = h->room ? 2 * h->room : 64;
	struct peer *peers;
	struct pollfd *fds;

	if (h->n < h->room)
		return (0);
	peers = realloc(h->peers, room * sizeof(*peers));
	if (peers)
		h->peers = peers;
	fds = realloc(h->fds, (room + FIRST_PEER) * sizeof(*fds));
	if (fds)
		h->fds = fds;
	if (!peers || !fds)
		return (-1);
	h->room = room;

	return (0);
}

/* Drop a connection without HELLO if there are too many: silent peers must not fill the table. */
static void bound_strangers(struct hub *h)
{
	size_t strangers = 0, first = h->n;

	for (size_t i = 0; i < h->n; ++i) {
		if (h->peers[i].rank >= 0)
			continue;
		if (first == h->n)
			first = i;
		++strangers;
	}
	if (strangers > MAX_STRANGERS)
		drop_peer(h, first);
}

static void accept_peer(struct hub *h)
{
	const int on = 1;
	const int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		h->full = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
		return;
	}
	if (make_room(h)) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	h->peers[h->n++] = (struct peer){ .fd = fd, .rank = -1 };
	bound_strangers(h);
}

/* --- frames of the servers --- */

static int take_hello(struct hub *h, struct peer *p, const struct frame *f)
{
	uint32_t rank, size;

	if (f->kind != FRAME_HELLO || f->n != HELLO_SIZE || !same_secret(f->bytes + 8, h->secret))
		return (-1);
	rank = number_at(f->bytes);
	size = number_at(f->bytes + 4);
	if (size == 0 || size > PMI_MAX_RANKS || rank >= size || (h->size && (int)size != h->size))
		return (-1);
	for (size_t i = 0; i < h->n; ++i) {
		if (h->peers[i].rank == (int)rank)
			return (-1);
	}
	if (!h->left)
		h->left = calloc(size, sizeof(*h->left));
	if (!h->left)
		return (-1);
	h->size = (int)size;
	p->rank = (int)rank;
	++h->ranks;
	h->left[rank] = false;
	if (h->aborted)
		send_frame(p, FRAME_ABORT, NULL, 0);
	send_asks(h, p);

	return (0);
}

/* Complete a fence: all ranks have sent FENCE. */
static void end_fence(struct hub *h)
{
	if (h->pairs.failed) { /* no memory */
		fail_fences(h);
		return;
	}
	for (size_t i = 0; i < h->n; ++i) {
		if (!h->peers[i].fenced)
			continue;
		h->peers[i].fenced = false;
		send_frame(&h->peers[i], FRAME_FENCED, h->pairs.bytes, h->pairs.n);
	}
	h->fenced = 0;
	free_buffer(&h->pairs);
}

static int take_fence(struct hub *h, struct peer *p, const struct frame *f)
{
	if (p->fenced || f->n > PMI_MAX_PAIRS - h->pairs.n)
		return (-1);
	if (h->lost) {
		send_frame(p, FRAME_LOST, NULL, 0);
		return (0);
	}
	p->fenced = true;
	add_bytes(&h->pairs, f->bytes, f->n);
	if (++h->fenced < h->size)
		return (0);
	end_fence(h);

	return (0);
}

static void answer_name(struct peer *p, bool good, const char *text)
{
	struct buffer answer = { 0 };

	add_text(&answer, good ? "1" : "0");
	add_text(&answer, text);
	if (!answer.failed)
		send_frame(p, FRAME_ANSWER, answer.bytes, answer.n);
	free_buffer(&answer);
}

/* PUBLISH, UNPUBLISH and LOOKUP carry a pair: a name and a port. */
static int take_name(struct hub *h, struct peer *p, const struct frame *f)
{
	struct pairs asked = { 0 };
	const struct pair *pair = NULL;
	int rv = -1;

	if (put_encoded_pairs(&asked, f->bytes, f->n) || asked.n != 1)
		goto out;
	for (size_t i = 0; !pair; ++i) {
		if (asked.slots[i].key)
			pair = &asked.slots[i];
	}
	if (f->kind == FRAME_LOOKUP) {
		const char *port = get_value(&h->names, pair->key);

		answer_name(p, port, port ? port : "the name is not published");
	} else if (f->kind == FRAME_UNPUBLISH) {
		answer_name(p, remove_pair(&h->names, pair->key), "the name is not published");
	} else if (get_value(&h->names, pair->key)) {
		answer_name(p, false, "the name is published already");
	} else {
		const int full = put_pair(&h->names, pair->key, strlen(pair->key), pair->value, strlen(pair->value));

		answer_name(p, !full, "no room for the name");
	}

	rv = 0;

out:
	free_pairs(&asked);

	return (rv);
}

static void send_abort(struct hub *h, const struct peer *from)
{
	h->aborted = true;
	for (size_t i = 0; i < h->n; ++i) {
		if (&h->peers[i] != from && h->peers[i].rank >= 0)
			send_frame(&h->peers[i], FRAME_ABORT, NULL, 0);
	}
}

/* Carry out a frame. Returns -1 if the peer must be dropped. */
static int obey_frame(struct hub *h, struct peer *p, const struct frame *f)
{
	if (p->rank < 0)
		return (take_hello(h, p, f));
	switch (f->kind) {
	case FRAME_FENCE:
		return (take_fence(h, p, f));
	case FRAME_PUBLISH:
	case FRAME_UNPUBLISH:
	case FRAME_LOOKUP:
		return (take_name(h, p, f));
	case FRAME_ABORT:
		send_abort(h, p);
		return (0);
	case FRAME_COLLECT:
		return (take_collect(h, p, f));
	case FRAME_ASK:
		return (take_ask(h, p, f));
	case FRAME_TELL:
		return (take_tell(h, f));
	default:
		return (-1);
	}
}

/* Read from a peer once, and carry out its frames. Returns -1 if the peer must be dropped. */
static int hear_peer(struct hub *h, struct peer *p)
{
	const size_t limit = p->rank < 0 ? FRAME_HEADER + HELLO_SIZE : READ_SIZE;
	struct frame f;
	ssize_t n;

	n = read_into(&p->in, p->fd, limit);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return (0);
	if (n <= 0)
		return (-1);
	while ((n = find_frame(&p->in, p->rank < 0 ? HELLO_SIZE : PMI_MAX_PAIRS, &f)) > 0) {
		if (obey_frame(h, p, &f))
			return (-1);
		drop_bytes(&p->in, (size_t)n);
	}
	if (p->in.n == 0)
		free_buffer(&p->in);

	return ((int)n);
}

/* --- the main loop --- */

static void wait_for_events(struct hub *h)
{
	h->fds[0] = (struct pollfd){ .fd = h->full ? -1 : h->listener, .events = POLLIN };
	h->fds[1] = (struct pollfd){ .fd = h->parent, .events = POLLIN };
	for (size_t i = 0; i < h->n; ++i) {
		h->fds[FIRST_PEER + i] = (struct pollfd){
			.fd = h->peers[i].fd,
			.events = (short)(POLLIN | (h->peers[i].out.n > 0 ? POLLOUT : 0)),
		};
	}
	while (poll(h->fds, h->n + FIRST_PEER, -1) < 0) {
		if (errno == ENOMEM)
			poll(NULL, 0, MEMORY_PAUSE);
		else if (errno != EINTR)
			_exit(1); /* EINVAL: the limit of descriptors was lowered. The servers find that the hub is gone */
	}
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

_Noreturn void run_hub(int listener, int parent, const char *secret)
{
	struct hub h = { .secret = secret, .listener = listener, .parent = parent };

	raise_descriptor_limit();
	if (make_room(&h))
		_exit(1);
	for (;;) {
		wait_for_events(&h);
		if (h.fds[1].revents)
			_exit(0); /* srun has ended */
		/* Backwards, because drop_peer puts the last peer in the place of the dropped peer. */
		for (size_t i = h.n; i-- > 0;) {
			if (h.fds[FIRST_PEER + i].revents & POLLOUT)
				send_rest(&h.peers[i]);
			if (h.fds[FIRST_PEER + i].revents & ~POLLOUT && hear_peer(&h, &h.peers[i]))
				drop_peer(&h, i);
		}
		if (h.fds[0].revents)
			accept_peer(&h);
	}
}

/* Find the address of this capsule: the first address that is no loopback address. */
static int find_address(uint32_t *address)
{
	struct ifaddrs *all;
	int rv = -1;

	if (getifaddrs(&all))
		return (-1);
	for (const struct ifaddrs *at = all; at && rv; at = at->ifa_next) {
		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_LOOPBACK))
			continue;
		*address = ((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr.s_addr;
		rv = 0;
	}
	freeifaddrs(all);
	if (rv)
		errno = EADDRNOTAVAIL;

	return (rv);
}

static int make_secret(char secret[PMI_SECRET_SIZE + 1])
{
	unsigned char bytes[PMI_SECRET_SIZE / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return (-1);
	for (size_t i = 0; i < sizeof(bytes); ++i)
		snprintf(secret + 2 * i, 3, "%02x", bytes[i]);

	return (0);
}

int listen_for_servers(struct hub_place *p)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);
	int fd = -1;
	int saved;

	if (find_address(&p->address) || make_secret(p->secret))
		return (-1);
	at.sin_addr.s_addr = p->address;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return (-1);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&at, &size)) {
		saved = errno;
		close(fd);
		errno = saved;
		return (-1);
	}
	p->port = at.sin_port;

	return (fd);
}
