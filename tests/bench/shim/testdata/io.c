// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that does little else but small files: io PATTERN COUNT, in its working
 * directory. It prints the nanoseconds that COUNT rounds took, by the clock and of the processor.
 *
 *	same   the same few files, again and again: written, appended to, read, replaced by rename
 *	new    each file under a name of its own, written, read and removed
 *	tree   as unpacking does: new files that stay, in folders, 16 KiB each
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char data[16384];

static void fail_with(const char *what)
{
	perror(what);
	exit(1);
}

static void put_bytes(const char *name, int flags, size_t n)
{
	const int fd = open(name, flags, 0644);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd))
		fail_with(name);
}

static void read_bytes(const char *name)
{
	const int fd = open(name, O_RDONLY);

	if (fd < 0 || read(fd, data, sizeof(data)) < 0 || close(fd))
		fail_with(name);
}

static void write_same(long i)
{
	char name[64], tmp[64];

	sprintf(name, "file%ld", i % 16);
	sprintf(tmp, "file%ld.tmp", i % 16);
	put_bytes(tmp, O_WRONLY | O_CREAT | O_TRUNC, 4096);
	put_bytes(tmp, O_WRONLY | O_APPEND, 1024);
	if (rename(tmp, name))
		fail_with(name);
	read_bytes(name);
}

static void write_fresh(long i)
{
	char name[64];

	sprintf(name, "new%ld", i);
	put_bytes(name, O_WRONLY | O_CREAT | O_TRUNC, 4096);
	read_bytes(name);
	if (unlink(name))
		fail_with(name);
}

static void write_tree(long i)
{
	char name[64];

	if (i % 100 == 0) {
		sprintf(name, "dir%ld", i / 100);
		if (mkdir(name, 0755))
			fail_with(name);
	}
	sprintf(name, "dir%ld/file%ld", i / 100, i);
	put_bytes(name, O_WRONLY | O_CREAT | O_EXCL, sizeof(data));
}

static long long nanoseconds_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);

	return (t.tv_sec * 1000000000LL + t.tv_nsec);
}

int main(int argc, char **argv)
{
	void (*const round)(long) = argc > 1 && !strcmp(argv[1], "same") ? write_same : argc > 1 && !strcmp(argv[1], "tree") ? write_tree : write_fresh;
	const long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	long long wall, cpu;

	wall = nanoseconds_now(CLOCK_MONOTONIC);
	cpu = nanoseconds_now(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < count; i++)
		round(i);
	cpu = nanoseconds_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = nanoseconds_now(CLOCK_MONOTONIC) - wall;
	printf("%lld %lld\n", wall, cpu);

	return (0);
}
