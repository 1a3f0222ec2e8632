// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * System calls without libc: a call of libc would enter the shim's own interceptors, and would show
 * other interposers files that the program did not ask for. errno is set as libc does.
 */
#ifndef SING_SHIM_RAW_H
#define SING_SHIM_RAW_H

#include <errno.h>

#if defined(__x86_64__)
static inline long raw6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long rv;

	__asm__ volatile("syscall"
			 : "=a"(rv)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");

	return (rv);
}
#elif defined(__aarch64__)
static inline long raw6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");

	return (x0);
}
#else
#error "libsingshim: no system calls for this processor"
#endif

static inline long raw(long number, long a, long b, long c, long d)
{
	const long rv = raw6(number, a, b, c, d, 0, 0);

	if (rv < 0 && rv > -4096) {
		errno = (int)-rv;
		return (-1);
	}

	return (rv);
}

#endif
