// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The flags that a new file description must share with the old description. */
enum { KEPT_FLAGS = O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECT | O_SYNC | O_DSYNC };

static bool same_file(const struct stat *a, const struct stat *b)
{
	return (a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_rdev == b->st_rdev &&
		(a->st_mode & S_IFMT) == (b->st_mode & S_IFMT));
}

/* Whether a and b are the same description, with a single offset. */
static bool is_shared(int a, int b)
{
	return (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b) == 0);
}

/*
 * The file of descriptor fd, opened by its path in this mount namespace, or -1.
 *
 * proc_fd is the /proc of the host, where this process is "self". In the capsule's own
 * /proc this process does not exist: its PID is not of that namespace.
 */
static int open_again(int proc_fd, int fd)
{
	char link[32];
	char path[PATH_MAX];
	struct stat before, after;
	ssize_t n;
	int again = -1;
	int flags;
	int rv = -1;

	if (fstat(fd, &before) || (!S_ISREG(before.st_mode) && !S_ISCHR(before.st_mode)))
		goto out;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_PATH))
		goto out;
	snprintf(link, sizeof(link), "self/fd/%d", fd);
	n = readlinkat(proc_fd, link, path, sizeof(path) - 1);
	if (n < 0 || path[0] != '/')
		goto out;
	path[n] = '\0';
	/*
	 * Any user that may write to the path's folder could have put a FIFO there; do not
	 * wait in open.
	 */
	again = open(path, (flags & KEPT_FLAGS) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (again < 0 || fstat(again, &after) || !same_file(&before, &after))
		goto out;
	if (fcntl(again, F_SETFL, flags & KEPT_FLAGS))
		goto out;
	if (S_ISREG(before.st_mode)) {
		const off_t at = lseek(fd, 0, SEEK_CUR);

		if (at < 0 || lseek(again, at, SEEK_SET) != at)
			goto out;
	}

	rv = again;
	again = -1;

out:
	if (again >= 0)
		close(again);

	return (rv);
}

void reopen_stdio(int proc_fd)
{
	int like[3];
	int again[3];
	int fd;

	if (proc_fd < 0)
		return;
	/*
	 * Find out which descriptors share a file description before any of them is
	 * replaced.
	 */
	for (fd = 0; fd < 3; ++fd)
		for (like[fd] = 0; like[fd] < fd && !is_shared(like[fd], fd); ++like[fd])
			;
	for (fd = 0; fd < 3; ++fd)
		again[fd] = like[fd] == fd ? open_again(proc_fd, fd) : -1;
	for (fd = 0; fd < 3; ++fd) {
		if (again[like[fd]] >= 0)
			dup2(again[like[fd]], fd);
	}
	for (fd = 0; fd < 3; ++fd) {
		if (again[fd] > 2)
			close(again[fd]);
	}
	close(proc_fd);
}

void drop_descriptors(const int *keep, size_t n)
{
	unsigned int from = 0;
	int null;

	for (size_t i = 0; i < n; ++i) {
		if (keep[i] < 0)
			continue;
		if ((unsigned int)keep[i] > from)
			close_range(from, (unsigned int)keep[i] - 1, 0);
		from = (unsigned int)keep[i] + 1;
	}
	close_range(from, UINT_MAX, 0);
	do {
		null = open("/dev/null", O_RDWR);
	} while (null >= 0 && null < 2);
	if (null > 2)
		close(null);
}
