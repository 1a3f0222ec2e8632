// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * What cannot be captured and what programs do without when the kernel has none. io_uring
 * is one: its rings are memory that the kernel writes to, and there is no reading back
 * what is under way. Libraries (libuv in Node.js, liburing) ask for it by syscall(), and
 * use epoll or threads when there is none.
 */
#define _GNU_SOURCE
#include "next.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Like libc's own it takes six arguments, whatever was passed; the sanitizer sees only that. */
__attribute__((visibility("default"), no_sanitize("address"))) long syscall(long number, ...)
{
	long a[6];
	va_list ap;

	if (number == SYS_io_uring_setup) {
		errno = ENOSYS;
		return (-1);
	}
	va_start(ap, number);
	for (int i = 0; i < 6; ++i)
		a[i] = va_arg(ap, long);
	va_end(ap);

	return (NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
