// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "attach.h"

#include "../../wire/attach.h"
#include "../raw.h"
#include "../ring.h"

#include "cache.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

/* Descriptors that a program expects to get are small. */
enum { OUT_OF_THE_WAY = 700 };

enum { NOT_YET, AT_IT, ATTACHED };

/* The state of this process. A child finds the page empty after any kind of fork. */
struct own {
	_Atomic uint32_t state;
	_Atomic uint32_t initialized;
};

static struct own *_Atomic own;
static _Atomic bool was_initialized; /* here or in a parent */
static bool reachable;

/*
 * Our end of the pipe. The program may have closed the descriptor, and its number may be another file's: the
 * ring has the inode of the pipe.
 */
static int keep = -1;

void sing_say(const char *format, ...)
{
	char line[512] = "singularity: ";
	const size_t n = strlen(line);
	const int e = errno;
	va_list args;
	int more;

	va_start(args, format);
	more = vsnprintf(line + n, sizeof(line) - n - 1, format, args);
	va_end(args);
	if (more >= 0) {
		const size_t end = n + (size_t)more < sizeof(line) - 1 ? n + (size_t)more : sizeof(line) - 2;

		line[end] = '\n';
		(void)raw6(SYS_write, 2, (long)line, (long)end + 1, 0, 0, 0);
	}
	errno = e;
}

static struct own *process_state(void)
{
	struct own *o = atomic_load_explicit(&own, memory_order_acquire), *none = NULL;

	if (o != NULL)
		return o;
	o = (struct own *)raw6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((unsigned long)o > -4096UL)
		return NULL;
	if (raw6(SYS_madvise, (long)o, 4096, MADV_WIPEONFORK, 0, 0, 0) != 0) {
		(void)raw6(SYS_munmap, (long)o, 4096, 0, 0, 0, 0);
		return NULL;
	}
	if (atomic_compare_exchange_strong(&own, &none, o))
		return o;
	(void)raw6(SYS_munmap, (long)o, 4096, 0, 0, 0, 0);
	return none;
}

bool sing_is_attached(void)
{
	struct own *o = atomic_load_explicit(&own, memory_order_acquire);

	return o != NULL && atomic_load_explicit(&o->state, memory_order_acquire) == ATTACHED;
}

bool sing_is_reachable(void)
{
	return reachable;
}

void sing_initialized(void)
{
	struct own *o = process_state();

	atomic_store(&was_initialized, true);
	if (o != NULL)
		atomic_store(&o->initialized, 1);
}

bool sing_is_initialized(void)
{
	struct own *o = atomic_load_explicit(&own, memory_order_acquire);

	return o != NULL && atomic_load_explicit(&o->initialized, memory_order_acquire);
}

bool sing_is_forked(void)
{
	return atomic_load(&was_initialized) && !sing_is_initialized();
}

/*
 * Whether the server is alive; called each second of a wait. Only the server has the other end of the pipe. A
 * process that was restored has another pipe in its place, which the process does not know while it waits for
 * its server.
 */
static bool is_alive(void)
{
	struct pollfd p = { .fd = keep };
	const struct timespec now = { 0 };
	struct stat st;

	if (raw6(SYS_fstat, keep, (long)&st, 0, 0, 0, 0) != 0 || st.st_ino != ring_pipe())
		return true; /* not known */
	return raw6(SYS_ppoll, (long)&p, 1, (long)&now, 0, 0, 0) != 1 || !(p.revents & POLLERR);
}

/* Returns a socket, or -1 and errno. */
static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	fd = (int)raw(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0);
	if (fd < 0)
		return -1;
	while (raw(SYS_connect, fd, (long)&a, sizeof(a), 0) != 0) {
		if (errno == EINTR || errno == EAGAIN)
			continue;
		(void)raw6(SYS_close, fd, 0, 0, 0, 0, 0);
		return -1;
	}
	return fd;
}

/* Where ptrace is restricted to parents, this lets the server read and write this process. */
static void allow_tracing(int fd)
{
	struct ucred peer = { 0 };
	socklen_t n = sizeof(peer);
	const long who = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid > 0 ? peer.pid : (long)PR_SET_PTRACER_ANY;

	(void)raw6(SYS_prctl, PR_SET_PTRACER, who, 0, 0, 0, 0);
}

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr head;
};

/*
 * Returns the length of a variable of the environment, or SING_VISIBLE_UNSET. A value that is longer than any
 * list of devices is cut off.
 */
static uint32_t read_variable(const char *name, struct iovec *v)
{
	v->iov_base = getenv(name);
	if (v->iov_base == NULL)
		return SING_VISIBLE_UNSET;
	v->iov_len = strnlen(v->iov_base, SING_VISIBLE_MAX);
	return (uint32_t)v->iov_len;
}

/* Send sing_ask to the server, with the end of the pipe. Returns an errno. */
static int ask_server(int fd, int end)
{
	static uint32_t probe = SING_ATTACH_MAGIC;
	struct sing_ask a = { SING_ATTACH_MAGIC, SING_ATTACH_VERSION, (uintptr_t)&probe, 0, 0 };
	struct iovec v[3] = { { &a, sizeof(a) } };
	union control c = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3, .msg_control = &c, .msg_controllen = sizeof(c) };

	a.visible = read_variable(SING_VISIBLE_ENV, &v[1]);
	a.names = read_variable(SING_NAMES_ENV, &v[2]);

	memcpy(CMSG_DATA(&c.head), &end, sizeof(end));
	while (raw(SYS_sendmsg, fd, (long)&m, MSG_NOSIGNAL, 0) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

static int be_welcomed(int fd, int *ring)
{
	struct sing_welcome w = { 0 };
	struct iovec v = { &w, sizeof(w) };
	union control c = { .bytes = { 0 } };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	long n;

	while ((n = raw(SYS_recvmsg, fd, (long)&m, MSG_CMSG_CLOEXEC, 0)) < 0)
		if (errno != EINTR)
			return errno;
	if (m.msg_controllen >= CMSG_LEN(sizeof(int)) && c.head.cmsg_type == SCM_RIGHTS)
		memcpy(ring, CMSG_DATA(&c.head), sizeof(*ring));
	if (n == 0)
		return ECONNRESET;
	if (n != sizeof(w) || w.version != SING_ATTACH_VERSION)
		return EPROTO;
	if (w.error != 0)
		return w.error;
	reachable = w.flags & SING_REACHABLE;
	return *ring < 0 ? EPROTO : 0;
}

/* Returns an errno. */
static int attach_to(const char *path)
{
	int fd, pipe[2] = { -1, -1 }, ring = -1, high, rv;

	fd = connect_to(path);
	if (fd < 0)
		return errno;
	allow_tracing(fd);
	rv = raw(SYS_pipe2, (long)pipe, O_CLOEXEC, 0, 0) == 0 ? 0 : errno;
	if (rv == 0)
		rv = ask_server(fd, pipe[0]);
	if (rv == 0)
		rv = be_welcomed(fd, &ring);
	if (rv == 0)
		rv = ring_attach(ring, is_alive);
	if (rv == 0) {
		high = (int)raw6(SYS_fcntl, pipe[1], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY, 0, 0, 0);
		keep = high >= 0 ? high : pipe[1];
	}
	for (int i = 0; i < 4; ++i) {
		const int done[] = { fd, ring, pipe[0], pipe[1] };

		if (done[i] >= 0 && !(rv == 0 && done[i] == keep))
			(void)raw6(SYS_close, done[i], 0, 0, 0, 0, 0);
	}
	return rv;
}

/* Whether the result rv of the last attempt says that a new server may be about to replace this server. */
static bool is_between(int rv, bool was)
{
	static const int lost[] = { ECONNRESET, EPIPE, ECONNREFUSED };

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); ++i)
		if (rv == lost[i])
			return true;
	return was && rv == ENOENT;
}

/*
 * Attach to a server. A server that has stopped its job is asked again until the job runs on. A server that
 * goes away during the request, or does not listen, may be replaced: the process waits for the new server, but
 * does not wait again if that was in vain. Returns an errno.
 */
static int attach_in_time(const char *path)
{
	enum { TRIES = 500, SHORTEST = 20000000, LONGEST = 640000000 };
	static _Atomic bool in_vain;
	struct timespec pause = { .tv_nsec = SHORTEST };
	int rv = attach_to(path);
	bool between = false;

	for (int i = 0; i < TRIES; ++i) {
		if (rv == ERESTART) {
			/* CRIU cannot take a socket that is connected to the server: so the pauses grow. */
			pause.tv_nsec = pause.tv_nsec < LONGEST ? pause.tv_nsec * 2 : LONGEST;
			between = true;
			i = 0;
		} else if (is_between(rv, between) && !atomic_load(&in_vain)) {
			pause.tv_nsec = SHORTEST;
			between = true;
		} else {
			return rv;
		}
		(void)raw6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
		rv = attach_to(path);
	}
	if (rv != 0)
		atomic_store(&in_vain, true);
	return rv;
}

enum sing_attachment sing_attach(void)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	const int e = errno;
	struct own *o = process_state();
	const char *path;
	uint32_t state;
	int rv;

	if (o == NULL)
		return SING_UNHEARD;
	if (sing_is_forked())
		return SING_FORKED;
	for (;;) {
		state = NOT_YET;
		if (atomic_compare_exchange_strong(&o->state, &state, AT_IT))
			break;
		if (state == ATTACHED)
			return SING_ATTACHED;
		(void)raw6(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0); /* another thread attaches */
	}
	path = getenv(SING_DEVICE_ENV);
	rv = path == NULL || *path == 0 ? -1 : attach_in_time(path);
	if (rv == 0)
		sing_cache_forget(); /* the answers of a parent's server */
	atomic_store(&o->state, rv == 0 ? ATTACHED : NOT_YET);
	if (rv > 0)
		sing_say("the device server %s: %s; CUDA has no devices", path, strerror(rv));
	errno = e;
	return rv == 0 ? SING_ATTACHED : rv < 0 ? SING_NOWHERE : SING_UNHEARD;
}
