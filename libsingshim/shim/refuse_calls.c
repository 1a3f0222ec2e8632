// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * What cannot be captured and what programs do without when the kernel has none.
 *
 * io_uring: its rings are memory that the kernel writes to, and there is no reading back
 * what is under way. Libraries (libuv in Node.js) ask for it by syscall(), or programs by
 * liburing, which enters the kernel by itself; they use epoll, libaio or threads when there
 * is none.
 *
 * Pipes with O_DIRECT, which keep apart what separate calls wrote: where a packet ends cannot
 * be seen from outside. Before Linux 3.4 there were none.
 *
 * Landlock's scopes (Linux 6.12), by which xz forbids itself to connect to abstract unix
 * sockets: CRIU has a process that it captures do that. Programs ask first which of
 * Landlock's versions there is, and confine themselves without scopes before the sixth.
 */
#define _GNU_SOURCE
#include "next_library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h may not have this attribute. */
enum {
	LANDLOCK_VERSION_FLAG = 1 << 0,
	LANDLOCK_WITHOUT_SCOPES = 5,
};

__attribute__((visibility("default"))) int pipe2(int ends[2], int flags)
{
	if (flags & O_DIRECT) {
		errno = EINVAL;
		return (-1);
	}

	return (NEXT(pipe2)(ends, flags));
}

/*
 * The calls of liburing that make rings, which return the error. No argument is looked at, and on x86-64 and arm64 the
 * caller has put none where its callee must remove it.
 */
#define REFUSE_RING(name) \
	__attribute__((visibility("default"))) int name(void); \
	__attribute__((visibility("default"))) int name(void) \
	{ \
		return (-ENOSYS); \
	}
REFUSE_RING(io_uring_setup)
REFUSE_RING(io_uring_queue_init)
REFUSE_RING(io_uring_queue_init_params)
REFUSE_RING(io_uring_queue_init_mem)

/*
 * Like libc's own syscall, six arguments are taken, whatever was passed; the sanitizer sees
 * only that.
 */
__attribute__((visibility("default"), no_sanitize("address"))) long syscall(long number, ...)
{
	long a[6], r;
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; ++i)
		a[i] = va_arg(ap, long);
	va_end(ap);

	if (number == SYS_io_uring_setup || (number == SYS_pipe2 && (a[1] & O_DIRECT))) {
		errno = number == SYS_pipe2 ? EINVAL : ENOSYS;
		return (-1);
	}

	r = NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);

	return (number == SYS_landlock_create_ruleset && a[2] == LANDLOCK_VERSION_FLAG && r > LANDLOCK_WITHOUT_SCOPES ?
			LANDLOCK_WITHOUT_SCOPES : r);
}
