// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that does little else but small files: io PATTERN COUNT, in its working
 * directory. io prints the nanoseconds that COUNT rounds took, by the clock and of the processor.
 *
 *	same   the same few files, again and again: written, appended to, read, replaced by rename
 *	new    each file under a name of its own, written, read and removed
 *	tree   as unpacking does: new files that stay, in folders, 16 KiB each
 *	write  the same file opened for writing and closed, and nothing else
 *	start  processes: fork, exec of /bin/true, wait
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void open_to_write(long i)
{
	const int fd = open("file", i ? O_WRONLY : O_WRONLY | O_CREAT, 0644);

	if (fd < 0 || close(fd))
		fail_with("file");
}

static void start_process(long i)
{
	const pid_t pid = fork();
	int status;

	(void)i;
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fail_with("/bin/true");
}

static long long nanoseconds_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);

	return (t.tv_sec * 1000000000LL + t.tv_nsec);
}

/* Processor time of the children that have ended. */
static long long read_children_time(void)
{
	struct rusage r;

	getrusage(RUSAGE_CHILDREN, &r);

	return ((r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000LL + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000LL);
}

static const struct {
	const char *name;
	void (*round)(long);
} patterns[] = { { "same", write_same }, { "new", write_fresh }, { "tree", write_tree }, { "write", open_to_write }, { "start", start_process } };

int main(int argc, char **argv)
{
	const long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	void (*round)(long) = NULL;
	long long wall, cpu;

	for (size_t i = 0; argc > 1 && i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (strcmp(argv[1], patterns[i].name) == 0)
			round = patterns[i].round;
	if (!round)
		return (2);
	wall = nanoseconds_now(CLOCK_MONOTONIC);
	cpu = nanoseconds_now(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < count; i++)
		round(i);
	cpu = nanoseconds_now(CLOCK_PROCESS_CPUTIME_ID) - cpu + read_children_time();
	wall = nanoseconds_now(CLOCK_MONOTONIC) - wall;
	printf("%lld %lld\n", wall, cpu);

	return (0);
}
