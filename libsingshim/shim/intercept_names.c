// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Interceptors of the calls that change names of files, and of those that change the working
 * directory.
 */
#define _GNU_SOURCE
#include "next_library.h"
#include "record_change.h"
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Complete n after a call that returned rv. */
static int finish_change(struct note *n, int rv, enum sing_kind kind)
{
	const int e = errno;

	if (rv)
		note_failed(n);
	else
		note_done(n, kind, 0);
	errno = e;

	return (rv);
}

/* INTERCEPT is a call that does something to a single path. */
#define INTERCEPT(name, parameters, arguments, act, kind, dirfd, path) \
	EXPORT int name parameters \
	{ \
		struct note n; \
\
		note_begin(&n, act, dirfd, path); \
		return (finish_change(&n, NEXT(name) arguments, kind)); \
	}
INTERCEPT(truncate, (const char *path, off_t size), (path, size), ACT_WRITTEN, SING_WRITTEN, AT_FDCWD, path)
INTERCEPT(truncate64, (const char *path, off_t size), (path, size), ACT_WRITTEN, SING_WRITTEN, AT_FDCWD, path)
INTERCEPT(unlink, (const char *path), (path), ACT_REMOVED, SING_REMOVED, AT_FDCWD, path)
INTERCEPT(unlinkat, (int dirfd, const char *path, int flags), (dirfd, path, flags), ACT_REMOVED, SING_REMOVED, dirfd, path)
INTERCEPT(remove, (const char *path), (path), ACT_REMOVED, SING_REMOVED, AT_FDCWD, path)
INTERCEPT(rmdir, (const char *path), (path), ACT_REMOVED, SING_REMOVED, AT_FDCWD, path)
INTERCEPT(mkdir, (const char *path, mode_t mode), (path, mode), ACT_FOLDER, SING_FOLDER, AT_FDCWD, path)
INTERCEPT(mkdirat, (int dirfd, const char *path, mode_t mode), (dirfd, path, mode), ACT_FOLDER, SING_FOLDER, dirfd, path)
INTERCEPT(mkfifo, (const char *path, mode_t mode), (path, mode), ACT_WRITTEN, SING_CREATED, AT_FDCWD, path)
INTERCEPT(mkfifoat, (int dirfd, const char *path, mode_t mode), (dirfd, path, mode), ACT_WRITTEN, SING_CREATED, dirfd, path)
INTERCEPT(mknod, (const char *path, mode_t mode, dev_t dev), (path, mode, dev), ACT_WRITTEN, SING_CREATED, AT_FDCWD, path)
INTERCEPT(mknodat, (int dirfd, const char *path, mode_t mode, dev_t dev), (dirfd, path, mode, dev), ACT_WRITTEN, SING_CREATED, dirfd, path)
INTERCEPT(symlink, (const char *target, const char *path), (target, path), ACT_SYMLINKED, SING_SYMLINKED, AT_FDCWD, path)
INTERCEPT(symlinkat, (const char *target, int dirfd, const char *path), (target, dirfd, path), ACT_SYMLINKED, SING_SYMLINKED, dirfd, path)

EXPORT char *mkdtemp(char *path)
{
	char *rv = NEXT(mkdtemp)(path);
	const int e = errno;

	if (rv)
		note_now(ACT_FOLDER, SING_FOLDER, AT_FDCWD, path);
	errno = e;

	return (rv);
}

/*
 * A new name is a link of an existing file, or, if the file has no other name that we know, a
 * new file.
 */
static enum sing_kind kind_of_link(const struct note *n)
{
	return (n->on && n->other.path.n ? SING_LINKED : SING_CREATED);
}

EXPORT int link(const char *old, const char *path)
{
	struct note n;
	enum sing_kind kind;

	note_begin_pair(&n, ACT_LINKED, AT_FDCWD, path, AT_FDCWD, old);
	kind = kind_of_link(&n);
	return (finish_change(&n, NEXT(link)(old, path), kind));
}

EXPORT int linkat(int olddir, const char *old, int dirfd, const char *path, int flags)
{
	struct note n;
	enum sing_kind kind;

	note_begin_pair(&n, ACT_LINKED, dirfd, path, olddir, old);
	kind = kind_of_link(&n);
	return (finish_change(&n, NEXT(linkat)(olddir, old, dirfd, path, flags), kind));
}

/*
 * The kind of record that a rename is if it succeeds. A rename from a folder that travels with the
 * capsule makes a new file.
 */
static enum sing_kind kind_of_rename(const struct note *n, int dirfd, const char *path)
{
	enum sing_kind kind = SING_RENAMED;
	struct stat st;
	const int e = errno;

	if (!n->on)
		return (kind);
	if (!raw(SYS_newfstatat, dirfd, (long)path, (long)&st, AT_SYMLINK_NOFOLLOW))
		kind = n->other.path.n ? SING_REPLACED : SING_WRITTEN;
	else if (!n->other.path.n)
		kind = SING_CREATED;
	errno = e;

	return (kind);
}

/* As finish_change. The renamed folder may be the working directory, or a folder above. */
static int finish_rename(struct note *n, int result, enum sing_kind kind)
{
	if (n->on && !result)
		directory_moved();

	return (finish_change(n, result, kind));
}

EXPORT int rename(const char *old, const char *path)
{
	struct note n;
	enum sing_kind kind;

	note_begin_pair(&n, ACT_RENAMED, AT_FDCWD, path, AT_FDCWD, old);
	kind = kind_of_rename(&n, AT_FDCWD, path);
	return (finish_rename(&n, NEXT(rename)(old, path), kind));
}

EXPORT int renameat(int olddir, const char *old, int dirfd, const char *path)
{
	struct note n;
	enum sing_kind kind;

	note_begin_pair(&n, ACT_RENAMED, dirfd, path, olddir, old);
	kind = kind_of_rename(&n, dirfd, path);
	return (finish_rename(&n, NEXT(renameat)(olddir, old, dirfd, path), kind));
}

EXPORT int renameat2(int olddir, const char *old, int dirfd, const char *path, unsigned int flags)
{
	struct note n;
	enum sing_kind kind;

	note_begin_pair(&n, ACT_RENAMED, dirfd, path, olddir, old);
	kind = kind_of_rename(&n, dirfd, path);
	if ((flags & RENAME_EXCHANGE) && n.on && n.other.path.n)
		kind = SING_EXCHANGED;
	return (finish_rename(&n, NEXT(renameat2)(olddir, old, dirfd, path, flags), kind));
}

EXPORT int chdir(const char *path)
{
	int rv;

	directory_moved(); /* a thread that calls getcwd during the call must not keep the result */
	rv = NEXT(chdir)(path);
	directory_moved();

	return (rv);
}

EXPORT int fchdir(int fd)
{
	int rv;

	directory_moved();
	rv = NEXT(fchdir)(fd);
	directory_moved();

	return (rv);
}
