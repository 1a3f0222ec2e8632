// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The functions that a program would call without the shim: those of libc, or of another
 * interposer behind the shim.
 */
#ifndef SING_SHIM_NEXT_LIBRARY_H
#define SING_SHIM_NEXT_LIBRARY_H

#include <stdio.h>
#include <sys/types.h>

struct stat;
struct statx;

/* name, result, parameters of each function: calls take their types from this table. */
#define SING_NEXT(X) \
	X(open, int, (const char *, int, ...)) \
	X(open64, int, (const char *, int, ...)) \
	X(openat, int, (int, const char *, int, ...)) \
	X(openat64, int, (int, const char *, int, ...)) \
	X(__open, int, (const char *, int, ...)) \
	X(__open64, int, (const char *, int, ...)) \
	X(__open_2, int, (const char *, int)) \
	X(__open64_2, int, (const char *, int)) \
	X(__openat_2, int, (int, const char *, int)) \
	X(__openat64_2, int, (int, const char *, int)) \
	X(creat, int, (const char *, mode_t)) \
	X(creat64, int, (const char *, mode_t)) \
	X(fopen, FILE *, (const char *, const char *)) \
	X(fopen64, FILE *, (const char *, const char *)) \
	X(freopen, FILE *, (const char *, const char *, FILE *)) \
	X(freopen64, FILE *, (const char *, const char *, FILE *)) \
	X(truncate, int, (const char *, off_t)) \
	X(truncate64, int, (const char *, off_t)) \
	X(rename, int, (const char *, const char *)) \
	X(renameat, int, (int, const char *, int, const char *)) \
	X(renameat2, int, (int, const char *, int, const char *, unsigned int)) \
	X(link, int, (const char *, const char *)) \
	X(linkat, int, (int, const char *, int, const char *, int)) \
	X(symlink, int, (const char *, const char *)) \
	X(symlinkat, int, (const char *, int, const char *)) \
	X(unlink, int, (const char *)) \
	X(unlinkat, int, (int, const char *, int)) \
	X(remove, int, (const char *)) \
	X(syscall, long, (long, ...)) \
	X(pipe2, int, (int *, int)) \
	X(rmdir, int, (const char *)) \
	X(mkdir, int, (const char *, mode_t)) \
	X(mkdirat, int, (int, const char *, mode_t)) \
	X(mkfifo, int, (const char *, mode_t)) \
	X(mkfifoat, int, (int, const char *, mode_t)) \
	X(mknod, int, (const char *, mode_t, dev_t)) \
	X(mknodat, int, (int, const char *, mode_t, dev_t)) \
	X(mkstemp, int, (char *)) \
	X(mkstemp64, int, (char *)) \
	X(mkostemp, int, (char *, int)) \
	X(mkostemp64, int, (char *, int)) \
	X(mkstemps, int, (char *, int)) \
	X(mkstemps64, int, (char *, int)) \
	X(mkostemps, int, (char *, int, int)) \
	X(mkostemps64, int, (char *, int, int)) \
	X(mkdtemp, char *, (char *)) \
	X(stat, int, (const char *, struct stat *)) \
	X(stat64, int, (const char *, struct stat *)) \
	X(lstat, int, (const char *, struct stat *)) \
	X(lstat64, int, (const char *, struct stat *)) \
	X(fstatat, int, (int, const char *, struct stat *, int)) \
	X(fstatat64, int, (int, const char *, struct stat *, int)) \
	X(__xstat, int, (int, const char *, struct stat *)) \
	X(__xstat64, int, (int, const char *, struct stat *)) \
	X(__lxstat, int, (int, const char *, struct stat *)) \
	X(__lxstat64, int, (int, const char *, struct stat *)) \
	X(__fxstatat, int, (int, int, const char *, struct stat *, int)) \
	X(__fxstatat64, int, (int, int, const char *, struct stat *, int)) \
	X(statx, int, (int, const char *, int, unsigned int, struct statx *)) \
	X(chdir, int, (const char *)) \
	X(fchdir, int, (int))

enum next_name {
#define X(name, result, parameters) NEXT_##name,
	SING_NEXT(X)
#undef X
	NEXT_COUNT,
};

/*
 * The function of that name; if there is none, a function that fails with ENOSYS. Safe in signal
 * handlers, and in children of vfork.
 */
void *next_find(enum next_name name);

#define X(name, result, parameters) \
	typedef result call_##name parameters;
SING_NEXT(X)
#undef X

#define NEXT(name) ((call_##name *)next_find(NEXT_##name))

#endif
