// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Interceptors of the calls of the stat family that take a path. CRIU binds a restored unix socket anew, so that the
 * socket's file has another inode, and no file system lets anybody choose the inode. Programs compare inodes: Python's
 * asyncio removes the file of a server that it closes only if the file has the inode that it had when the server was
 * made. So programs are shown the inode that the file had before the restore.
 */
#define _GNU_SOURCE
#include "list.h"
#include "next_library.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#define EXPORT __attribute__((visibility("default")))

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "on 64-bit machines they are the same");

static int show_inode(int rv, struct stat *st)
{
	if (!rv && S_ISSOCK(st->st_mode))
		st->st_ino = list_shown_inode(st->st_dev, st->st_ino);

	return (rv);
}

#define STAT(name_, type_) \
	EXPORT int name_(const char *path, struct type_ *st) \
	{ \
		struct stat *const to = (struct stat *)st; \
\
		return (show_inode(NEXT(name_)(path, to), to)); \
	}
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define FSTATAT(name_, type_) \
	EXPORT int name_(int dirfd, const char *path, struct type_ *st, int flags) \
	{ \
		struct stat *const to = (struct stat *)st; \
\
		return (show_inode(NEXT(name_)(dirfd, path, to, flags), to)); \
	}
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

/* Programs that were linked with a glibc before 2.33 call these; newer headers do not declare them. */
#define XSTAT(name_, type_) \
	EXPORT int name_(int version, const char *path, struct type_ *st); \
	EXPORT int name_(int version, const char *path, struct type_ *st) \
	{ \
		struct stat *const to = (struct stat *)st; \
\
		return (show_inode(NEXT(name_)(version, path, to), to)); \
	}
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)

#define FXSTATAT(name_, type_) \
	EXPORT int name_(int version, int dirfd, const char *path, struct type_ *st, int flags); \
	EXPORT int name_(int version, int dirfd, const char *path, struct type_ *st, int flags) \
	{ \
		struct stat *const to = (struct stat *)st; \
\
		return (show_inode(NEXT(name_)(version, dirfd, path, to, flags), to)); \
	}
FXSTATAT(__fxstatat, stat)
FXSTATAT(__fxstatat64, stat64)

EXPORT int statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *st)
{
	const int rv = NEXT(statx)(dirfd, path, flags, mask, st);

	if (!rv && (st->stx_mask & STATX_TYPE) && (st->stx_mask & STATX_INO) && S_ISSOCK(st->stx_mode))
		st->stx_ino = list_shown_inode(makedev(st->stx_dev_major, st->stx_dev_minor), st->stx_ino);

	return (rv);
}
