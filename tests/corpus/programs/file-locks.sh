#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: record locks of processes and of open files, leases, O_TMPFILE, sparse files, holes, splices and asynchronous writes
# Needs: gcc
#SBATCH --job-name=file-locks --ntasks=1 --output=log
set -eu
cat >files.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 70, BLOCK = 4096 };

static int lock(int fd, int how, int type, long start, long length)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
	return fcntl(fd, how, &l);
}

static int locked(int fd, int how, long start) /* by another one? */
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
	return fcntl(fd, how, &l) ? -1 : l.l_type != F_UNLCK;
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : ".";
	char path[200];
	snprintf(path, sizeof(path), "%s/locked", dir);
	int records = open(path, O_CREAT | O_RDWR, 0600), other = open(path, O_RDWR);
	int hidden = open(dir, O_TMPFILE | O_RDWR, 0600);
	snprintf(path, sizeof(path), "%s/sparse", dir);
	int sparse = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
	snprintf(path, sizeof(path), "%s/leased", dir);
	int leased = open(path, O_CREAT | O_RDONLY, 0600);
	if (records < 0 || hidden < 0 || sparse < 0 || leased < 0 || ftruncate(records, 100000) || ftruncate(sparse, 64L << 20))
		return 1;
	int lease = fcntl(leased, F_SETLEASE, F_RDLCK);
	if (lock(records, F_OFD_SETLK, F_WRLCK, 0, 100) || lock(other, F_SETLK, F_WRLCK, 1000, 100))
		return 2;
	aio_context_t ring = 0;
	if (syscall(SYS_io_setup, 8, &ring))
		return 3;
	int ends[2];
	if (pipe(ends))
		return 4;
	puts("begins");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) { /* waits for what its parent holds, and looks */
		int mine = open(argc > 1 ? argv[2] : "locked", O_RDWR), seen = 0;
		for (int turn = 0; turn < TURNS / 2; turn++) {
			seen += locked(mine, F_OFD_GETLK, 50) == 1 && locked(mine, F_GETLK, 1050) == 1 && locked(mine, F_GETLK, 5000) == 0;
			usleep(100000);
		}
		if (lock(mine, F_SETLKW, F_WRLCK, 1000, 100))
			_exit(1);
		_exit(seen == TURNS / 2 ? 0 : 100 + seen % 100);
	}
	char *block = aligned_alloc(BLOCK, BLOCK);
	unsigned long sum = 0;
	for (int turn = 0; turn < TURNS; turn++) {
		memset(block, 'a' + turn % 26, BLOCK);
		struct iocb write_it = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = sparse, .aio_buf = (unsigned long)block, .aio_nbytes = BLOCK, .aio_offset = turn * 800000L};
		struct iocb *all[] = {&write_it};
		struct io_event done;
		if (syscall(SYS_io_submit, ring, 1, all) != 1)
			return 5;
		while (syscall(SYS_io_getevents, ring, 1, 1, &done, NULL) != 1)
			if (errno != EINTR)
				return 6;
		sum = sum * 31 + done.res;
		loff_t from = turn * 800000L;
		if (splice(sparse, &from, ends[1], NULL, BLOCK, 0) != BLOCK || splice(ends[0], NULL, hidden, NULL, BLOCK, 0) != BLOCK)
			return 7;
		if (turn % 10 == 9)
			fallocate(sparse, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (turn - 5) * 800000L, BLOCK);
		usleep(100000);
	}
	lock(other, F_SETLK, F_UNLCK, 1000, 100);
	int status;
	waitpid(child, &status, 0);
	char text[BLOCK];
	lseek(hidden, 0, SEEK_SET);
	for (ssize_t n; (n = read(hidden, text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < n; i++)
			sum = sum * 131 + text[i];
	struct stat st;
	fstat(sparse, &st);
	printf("child %d, lease %d, sum %lx, less than it says: %d\n", WEXITSTATUS(status), lease == 0 ? fcntl(leased, F_GETLEASE) : -2, sum, st.st_blocks * 512 < st.st_size / 4);
	return 0;
}
C
gcc -O1 -o files files.c
./files
mkdir /tmp/files
./files /tmp/files /tmp/files/locked
sha256sum sparse /tmp/files/sparse | cut -c 1-64
rm -r files locked sparse leased
