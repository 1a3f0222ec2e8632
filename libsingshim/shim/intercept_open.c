// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Interceptors of the calls that open files. Only an opening that can change a file is
 * recorded.
 */
#define _GNU_SOURCE
#include "next_library.h"
#include "record_change.h"
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * With _FORTIFY_SOURCE, libc's headers would turn calls of open in this file into calls of
 * __open_2.
 */
#ifdef _FORTIFY_SOURCE
#error "build without _FORTIFY_SOURCE"
#endif

#define EXPORT __attribute__((visibility("default")))

int __open(const char *path, int flags, ...);
int __open64(const char *path, int flags, ...);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* opening is a call of one of the open functions. */
struct opening {
	enum next_name name;
	int dirfd;
	const char *path;
	int flags;
	mode_t mode;
};

static int call_next(const struct opening *o, int flags)
{
	switch (o->name) {
	case NEXT_openat:
	case NEXT_openat64:
		return (((call_openat *)next_find(o->name))(o->dirfd, o->path, flags, o->mode));
	case NEXT___openat_2:
	case NEXT___openat64_2:
		return (((call___openat_2 *)next_find(o->name))(o->dirfd, o->path, flags));
	case NEXT___open_2:
	case NEXT___open64_2:
		return (((call___open_2 *)next_find(o->name))(o->path, flags));
	default:
		return (((call_open *)next_find(o->name))(o->path, flags, o->mode));
	}
}

/* looked is the file at a path before the path was opened. */
struct looked {
	bool link;    /* a symbolic link: the file that is opened has another name */
	bool missing; /* no file, or a link that leads nowhere */
	uint64_t length;
};

static struct looked look_at(int dirfd, const char *path)
{
	struct looked rv = { .missing = true, .length = UINT64_MAX };
	struct stat st;
	const int e = errno;

	if (!raw(SYS_newfstatat, dirfd, (long)path, (long)&st, AT_SYMLINK_NOFOLLOW)) {
		rv.missing = false;
		rv.link = S_ISLNK(st.st_mode);
		if (rv.link)
			rv.missing = raw(SYS_newfstatat, dirfd, (long)path, (long)&st, 0);
		if (!rv.missing)
			rv.length = (uint64_t)st.st_size;
	}
	errno = e;

	return (rv);
}

static void note_opened(struct note *n, int fd, const struct looked *was, bool append)
{
	const enum act act = append ? ACT_APPENDED : ACT_WRITTEN;
	enum sing_kind kind = append ? SING_APPENDED : SING_WRITTEN;
	const int e = errno;

	if (!n->on)
		return;
	if (was->missing)
		kind = SING_CREATED;
	if (fd < 0)
		note_failed(n);
	else if (was->link)
		note_done_behind(n, act, kind, was->length, fd);
	else
		note_done(n, kind, was->length);
	errno = e;
}

static int intercept_open(const struct opening *o)
{
	const int f = o->flags;
	const bool append = (f & O_APPEND) && !(f & O_TRUNC);
	struct looked was = { .missing = true };
	struct note n;
	int e, fd;

	/*
	 * Not recorded: reading, a mere reference (O_PATH) and a file without a name
	 * (O_TMPFILE) change no file that has a name.
	 */
	if (((f & O_ACCMODE) == O_RDONLY && !(f & (O_CREAT | O_TRUNC))) || (f & O_PATH) || (f & O_TMPFILE) == O_TMPFILE)
		return (call_next(o, f));
	if (note_is_known(append ? ACT_APPENDED : ACT_WRITTEN, o->dirfd, o->path))
		return (call_next(o, f));
	note_begin(&n, append ? ACT_APPENDED : ACT_WRITTEN, o->dirfd, o->path);
	if (!n.on)
		return (call_next(o, f));
	/*
	 * A rollback may remove the file only if the job made it. So the kernel is asked whether
	 * the file is new, once for each path: with O_EXCL the call succeeds only for a new file.
	 */
	e = errno;
	fd = f & O_CREAT ? call_next(o, f | O_EXCL) : -1;
	if (fd < 0 && (!(f & O_CREAT) || (errno == EEXIST && !(f & O_EXCL)))) {
		was = look_at(o->dirfd, o->path);
		errno = e;
		fd = call_next(o, f);
	}
	note_opened(&n, fd, &was, append);

	return (fd);
}

static bool has_mode(int flags)
{
	return ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE);
}

/* After dirfd_ come the parameters that the function has before path, each with a comma behind it. */
#define OPENING(name_, dirfd_, ...) \
	EXPORT int name_(__VA_ARGS__ const char *path, int flags, ...) \
	{ \
		struct opening o = { NEXT_##name_, dirfd_, path, flags, 0 }; \
		va_list ap; \
\
		va_start(ap, flags); \
		if (has_mode(flags)) \
			o.mode = va_arg(ap, mode_t); \
		va_end(ap); \
\
		return (intercept_open(&o)); \
	}
#define OPEN(name_) OPENING(name_, AT_FDCWD, )
#define OPENAT(name_) OPENING(name_, dirfd, int dirfd, )
OPEN(open)
OPEN(open64)
OPEN(__open)
OPEN(__open64)
OPENAT(openat)
OPENAT(openat64)

/* The fortified functions: their flags never have O_CREAT, for which they end the program. */
#define OPENING_2(name_, dirfd_, ...) \
	EXPORT int name_(__VA_ARGS__ const char *path, int flags) \
	{ \
		const struct opening o = { NEXT_##name_, dirfd_, path, flags, 0 }; \
\
		if (has_mode(flags)) \
			return (call_next(&o, flags)); \
		return (intercept_open(&o)); \
	}
#define OPEN_2(name_) OPENING_2(name_, AT_FDCWD, )
#define OPENAT_2(name_) OPENING_2(name_, dirfd, int dirfd, )
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

/* creat is open with these flags, by its manual and for every libc. */
#define CREAT(name_, open_) \
	EXPORT int name_(const char *path, mode_t mode) \
	{ \
		const struct opening o = { NEXT_##open_, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode }; \
\
		return (intercept_open(&o)); \
	}
CREAT(creat, open)
CREAT(creat64, open64)

static FILE *intercept_stdio(enum next_name name, const char *path, const char *mode, FILE *old)
{
	const bool reopen = name == NEXT_freopen || name == NEXT_freopen64;
	const bool plain_read = !mode || (mode[0] == 'r' && !strchr(mode, '+'));
	const bool append = mode && mode[0] == 'a';
	struct note n = { .on = false };
	struct looked was = { .missing = true };
	FILE *f;

	if (path && !plain_read)
		note_begin(&n, append ? ACT_APPENDED : ACT_WRITTEN, AT_FDCWD, path);
	if (n.on)
		was = look_at(AT_FDCWD, path);
	f = reopen ? ((call_freopen *)next_find(name))(path, mode, old)
		   : ((call_fopen *)next_find(name))(path, mode);
	note_opened(&n, f ? fileno(f) : -1, &was, append);

	return (f);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	return (intercept_stdio(NEXT_fopen, path, mode, NULL));
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return (intercept_stdio(NEXT_fopen64, path, mode, NULL));
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *f)
{
	return (intercept_stdio(NEXT_freopen, path, mode, f));
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *f)
{
	return (intercept_stdio(NEXT_freopen64, path, mode, f));
}

/* The name is known only afterwards. */
static int note_made(int fd, const char *path)
{
	const int e = errno;

	if (fd >= 0)
		note_now(ACT_WRITTEN, SING_CREATED, AT_FDCWD, path);
	errno = e;

	return (fd);
}

#define MKSTEMP(name_, parameters, arguments) \
	EXPORT int name_ parameters \
	{ \
		return (note_made(NEXT(name_) arguments, path)); \
	}
MKSTEMP(mkstemp, (char *path), (path))
MKSTEMP(mkstemp64, (char *path), (path))
MKSTEMP(mkostemp, (char *path, int flags), (path, flags))
MKSTEMP(mkostemp64, (char *path, int flags), (path, flags))
MKSTEMP(mkstemps, (char *path, int suffix), (path, suffix))
MKSTEMP(mkstemps64, (char *path, int suffix), (path, suffix))
MKSTEMP(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags))
MKSTEMP(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags))
