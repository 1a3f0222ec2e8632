// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that does random things to files below a folder, by as many functions of
 * libc as there are: ops DIR SEED COUNT. The same arguments do the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t state;

static unsigned int draw_number(unsigned int n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;

	return ((unsigned int)(state >> 33) % n);
}

static char *draw_name(char *buf, const char *dir)
{
	static const char *const folders[] = { "", "", "d0/", "d1/", "d0/e/", "d2/" };
	static const char *const how[] = { "", "./", "d0/../", "/" };

	/* Absolute and relative, straight and crooked. */
	if (draw_number(2))
		sprintf(buf, "%s%s%sf%u", draw_number(2) ? how[draw_number(2)] : "", "", folders[draw_number(6)], draw_number(8));
	else
		sprintf(buf, "%s/%s%sf%u", dir, draw_number(8) ? "" : "/", folders[draw_number(6)], draw_number(8));

	return (buf);
}

static char *draw_folder(char *buf)
{
	static const char *const folders[] = { "d0", "d1", "d0/e", "d2", "d3" };

	return (strcpy(buf, folders[draw_number(5)]));
}

static void put_data(int fd)
{
	char data[5000];
	const size_t n = draw_number(sizeof(data));

	memset(data, (int)draw_number(256), n);
	if (n > 8)
		memcpy(data, &state, 8);
	if (fd < 0)
		return;
	if (!draw_number(8) && lseek(fd, (off_t)draw_number(40) << 20, SEEK_SET) < 0)
		perror("lseek");
	if (write(fd, data, n) < 0)
		perror("write");
	close(fd);
}

static void put_line(FILE *f)
{
	if (!f)
		return;
	fprintf(f, "line %u\n", draw_number(1000));
	fclose(f);
}

static void run_step(const char *dir)
{
	char a[4200], b[4200];
	int fd;

	switch (draw_number(30)) {
	case 0: case 1: case 2:
		put_data(open(draw_name(a, dir), O_WRONLY | O_CREAT | O_TRUNC, 0644));
		break;
	case 3: case 4:
		put_data(open(draw_name(a, dir), O_WRONLY | O_CREAT | O_APPEND, 0640));
		break;
	case 5: case 6:
		put_data(open(draw_name(a, dir), O_RDWR));
		break;
	case 7:
		put_data(open(draw_name(a, dir), O_WRONLY | O_CREAT | O_EXCL, 0600));
		break;
	case 8:
		put_data(creat(draw_name(a, dir), 0666));
		break;
	case 9:
		put_line(fopen(draw_name(a, dir), "w"));
		break;
	case 10:
		put_line(fopen(draw_name(a, dir), "a"));
		break;
	case 11:
		put_line(fopen(draw_name(a, dir), "r+"));
		break;
	case 12:
		if (truncate(draw_name(a, dir), draw_number(8000)))
			errno = 0;
		break;
	case 13: case 14:
		rename(draw_name(a, dir), draw_name(b, dir));
		break;
	case 15:
		rename(draw_folder(a), draw_folder(b));
		break;
	case 16:
		if (link(draw_name(a, dir), draw_name(b, dir)))
			errno = 0;
		break;
	case 17:
		if (symlink(draw_number(2) ? "f1" : "/nowhere", draw_name(b, dir)))
			errno = 0;
		break;
	case 18: case 19:
		unlink(draw_name(a, dir));
		break;
	case 20:
		remove(draw_number(2) ? draw_name(a, dir) : draw_folder(a));
		break;
	case 21: case 22:
		mkdir(draw_folder(a), 0755);
		break;
	case 23:
		rmdir(draw_folder(a));
		break;
	case 24:
		chmod(draw_name(a, dir), 0200 | draw_number(512));
		break;
	case 25:
		/* By a name of its own: to open the pipe would block. */
		sprintf(a, "p%u", draw_number(3));
		if (mkfifo(a, 0600))
			unlink(a);
		break;
	case 26:
		strcpy(a, "tempXXXXXX");
		fd = mkstemp(a);
		put_data(fd);
		if (draw_number(2))
			rename(a, draw_name(b, dir));
		else if (draw_number(2))
			unlink(a);
		break;
	case 27:
		fd = open(draw_folder(a), O_RDONLY | O_DIRECTORY);
		if (fd < 0)
			break;
		sprintf(b, "f%u", draw_number(8));
		if (draw_number(2))
			put_data(openat(fd, b, O_WRONLY | O_CREAT, 0644));
		else
			unlinkat(fd, b, 0);
		close(fd);
		break;
	case 28:
		/* Elsewhere for a moment. */
		if (chdir(draw_folder(a)))
			break;
		sprintf(b, "f%u", draw_number(8));
		put_data(open(b, O_WRONLY | O_CREAT, 0644));
		if (chdir(dir))
			abort();
		break;
	case 29:
		renameat2(AT_FDCWD, draw_name(a, dir), AT_FDCWD, draw_name(b, dir), draw_number(2) ? RENAME_EXCHANGE : RENAME_NOREPLACE);
		break;
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return (2);
	state = strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15u | 1;
	if (chdir(argv[1]))
		return (1);
	umask(0);
	for (long n = strtol(argv[3], NULL, 10); n > 0; n--) {
		run_step(argv[1]);
	}

	return (0);
}
