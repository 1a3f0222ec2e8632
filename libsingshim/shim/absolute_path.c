// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "absolute_path.h"

#include "pages.h"
#include "raw.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Buffers for paths that have to be put together. They are not on the stack, because a signal
 * handler's stack may be smaller than a path, and no thread has a buffer of its own, because a
 * handler may interrupt the thread's own use of the buffer. So there are a few buffers, which are
 * taken without waiting; when all are taken, the change to the file is counted as lost.
 *
 * Each buffer begins with the working directory as getcwd last returned it: the call costs as much
 * as all the rest. The directory is valid while of == moves. A child of vfork shares this memory
 * but not the directory, so only a process with memory of its own keeps the directory; when such a
 * child changes its directory, that counts as a move for both. If another process renames the
 * folder, that is not seen.
 *
 * The buffers are mapped when a path is put together for the first time: most processes never do
 * that.
 */
struct buffer {
	uint64_t of; /* moves when getcwd returned the beginning; 0: the beginning is not the working directory */
	size_t n;    /* length of the beginning, with a slash behind it */
	char path[SING_MAX_PATH + 2];
};
enum { BUFFERS = 16 };
static void *_Atomic buffers;

/* Apart from the buffers, so that a child of fork reads one page, not a page for each buffer. */
static _Atomic bool busy[BUFFERS];

static _Atomic uint64_t moves = 1;

void directory_moved(void)
{
	atomic_fetch_add(&moves, 1);
}

uint64_t directory_moves(void)
{
	return (atomic_load(&moves));
}

uint64_t directory_moves_of(const struct absolute_path *p)
{
	return (p->buffer ? p->buffer->of : 0);
}

void absolute_path_reset(void)
{
	/* Only a flag that is set is written: the page is shared with the parent until a write. */
	for (size_t i = 0; i < BUFFERS; i++)
		if (atomic_load_explicit(&busy[i], memory_order_relaxed))
			atomic_store_explicit(&busy[i], false, memory_order_relaxed);
}

static struct buffer *take_buffer(void)
{
	struct buffer *const all = pages_get(&buffers, BUFFERS * sizeof(struct buffer));

	for (size_t i = 0; all && i < BUFFERS; i++)
		if (!atomic_exchange_explicit(&busy[i], true, memory_order_acquire))
			return (&all[i]);

	return (NULL);
}

void absolute_path_give_back(struct absolute_path *p)
{
	if (p->buffer)
		atomic_store_explicit(&busy[p->buffer - (struct buffer *)buffers], false, memory_order_release);
	p->buffer = NULL;
}

/*
 * Whether this process has memory of its own, which a child of vfork or posix_spawn has not. The
 * kernel clears a thread's id where libc keeps it when the thread ends, except for such a child.
 * If the kernel does not tell, the answer is no: then getcwd is called each time.
 */
static bool has_own_memory(void)
{
	void *id = NULL;

	return (!raw(SYS_prctl, PR_GET_TID_ADDRESS, (long)&id, 0, 0) && id);
}

/*
 * Make b begin with the working directory and a slash. Returns the length, 0 if the directory
 * has no path.
 */
static size_t begin_cwd(struct buffer *b)
{
	const uint64_t now = atomic_load(&moves);
	long n;

	if (b->of == now)
		return (b->n);
	b->of = 0;
	n = raw(SYS_getcwd, (long)b->path, SING_MAX_PATH + 1, 0, 0);
	if (n < 2 || b->path[0] != '/')
		return (0);
	n--; /* the kernel counts the NUL */
	if (n > 1)
		b->path[n++] = '/';
	b->n = (size_t)n;
	if (has_own_memory())
		b->of = now;

	return (b->n);
}

/* Write the path of an open descriptor to b. Returns its length, 0 if there is no path. */
static size_t get_open(int fd, struct buffer *b)
{
	char link[32] = "/proc/self/fd/";
	char *p = link + sizeof(link) - 1;
	unsigned int v = (unsigned int)fd;
	long n;

	/*
	 * The digits are written from the end, then moved to their place: printf is not safe in a
	 * handler.
	 */
	*p = 0;
	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	memmove(link + 14, p, (size_t)(link + sizeof(link) - p));
	b->of = 0;
	n = raw(SYS_readlinkat, AT_FDCWD, (long)link, (long)b->path, SING_MAX_PATH + 1);
	if (n < 1 || n > SING_MAX_PATH || b->path[0] != '/')
		return (0);

	return ((size_t)n);
}

/* Whether path is in a folder that travels with the capsule, or is no place for files. */
static bool is_elsewhere(struct span p)
{
/* The length is known to the compiler, which makes the comparison a word or two. */
#define BELOW(folder) (p.n >= sizeof(folder) - 1 && !memcmp(p.at, folder, sizeof(folder) - 1))
	return (BELOW("/tmp/") || BELOW("/dev/") || BELOW("/proc/") || BELOW("/var/tmp/") || BELOW("/sys/"));
#undef BELOW
}

bool absolute_path_find(struct absolute_path *p, int dirfd, const char *path)
{
	size_t n, dir = 0;
	char *buf;

	*p = (struct absolute_path){ .buffer = NULL };
	if (!path || !path[0])
		return (false);
	n = strlen(path);
	if (n > SING_MAX_PATH)
		return (false); /* the call will fail */
	if (path[0] == '/') {
		p->path = (struct span){ path, n };
		return (!is_elsewhere(p->path));
	}
	p->buffer = take_buffer();
	if (!p->buffer) {
		list_lose();
		return (false);
	}
	buf = p->buffer->path;
	if (dirfd == AT_FDCWD) {
		dir = begin_cwd(p->buffer);
	} else if (dirfd >= 0) {
		dir = get_open(dirfd, p->buffer);
		if (dir && buf[dir - 1] != '/')
			buf[dir++] = '/';
	}
	if (!dir)
		return (false); /* a folder that was removed, or a bad descriptor: no record */
	if (dir + n > SING_MAX_PATH) {
		list_lose();
		return (false);
	}
	memcpy(buf + dir, path, n);
	p->path = (struct span){ buf, dir + n };

	return (!is_elsewhere(p->path));
}

bool absolute_path_find_open(struct absolute_path *p, int fd)
{
	size_t n;

	*p = (struct absolute_path){ .buffer = take_buffer() };
	n = p->buffer ? get_open(fd, p->buffer) : 0;
	if (!n) {
		list_lose();
		return (false);
	}
	p->path = (struct span){ p->buffer->path, n };

	return (!is_elsewhere(p->path));
}
