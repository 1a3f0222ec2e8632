// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Refuse the calls of features that cannot be captured, and that programs do without where the
 * kernel lacks them.
 *
 * io_uring: its rings are memory that the kernel writes to, and requests under way cannot be read
 * back. Libraries (libuv in Node.js) make a ring by syscall(), programs by liburing, which enters
 * the kernel by itself; they use epoll, libaio or threads without io_uring.
 *
 * Pipes with O_DIRECT, which keep the bytes of separate writes apart as packets: the end of a
 * packet cannot be seen from outside. Linux has had such pipes since 3.4.
 *
 * Landlock, by which xz and pacman confine themselves: the kernel tells nothing of a process's
 * restrictions, and CRIU does not save them, so a restored process would be free of them without
 * knowing it. Programs ask first for the kernel's version of Landlock, for Linux has it since 5.13,
 * and may have it switched off.
 *
 * The permission to use AMX tiles (arch_prctl, Linux 5.16), for which llama.cpp and oneDNN ask by
 * syscall(): CRIU 4.2 saves neither the permission nor the tiles. A process that was captured has
 * no tiles any more, even where it goes on in place, and its next tile instruction is an invalid
 * opcode. Without the permission libraries use AVX-512, as on a processor without AMX.
 */
#define _GNU_SOURCE
#include "next_library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int pipe2(int ends[2], int flags)
{
	if (flags & O_DIRECT) {
		errno = EINVAL;
		return (-1);
	}

	return (NEXT(pipe2)(ends, flags));
}

/*
 * The calls of liburing that make rings, which return the error. The arguments are not read, and on x86-64 and arm64 a
 * callee never has to remove arguments from the stack.
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

#ifdef SYS_arch_prctl
enum {
	REQUEST_PERMISSION = 0x1023, /* ARCH_REQ_XCOMP_PERM of asm/prctl.h, which may be older */
	AMX_TILES = 18,              /* ARCH_XCOMP_TILEDATA */
};
#endif

/* The error of a system call that is refused, 0 for others. a has the call's arguments. */
static int refusal_of(long number, const long *a)
{
	switch (number) {
	case SYS_pipe2:
		return (a[1] & O_DIRECT ? EINVAL : 0);
#ifdef SYS_arch_prctl
	case SYS_arch_prctl: /* the kernel's answer where the processor has no AMX */
		return (a[0] == REQUEST_PERMISSION && a[1] == AMX_TILES ? EOPNOTSUPP : 0);
#endif
	case SYS_io_uring_setup:
	case SYS_landlock_create_ruleset:
	case SYS_landlock_add_rule:
	case SYS_landlock_restrict_self:
		return (ENOSYS);
	default:
		return (0);
	}
}

/*
 * Like libc's own syscall, this reads six arguments, even if fewer were passed. The sanitizer would
 * report those that were not passed.
 */
__attribute__((visibility("default"), no_sanitize("address"))) long syscall(long number, ...)
{
	long a[6];
	va_list ap;
	int refused;

	va_start(ap, number);
	for (int i = 0; i < 6; ++i)
		a[i] = va_arg(ap, long);
	va_end(ap);

	refused = refusal_of(number, a);
	if (refused) {
		errno = refused;
		return (-1);
	}

	return (NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
