// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that is linked statically, so that it goes past the shim, and carries out
 * its arguments, operations on files, in turn.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put_text(const char *path, int flags, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);

	return (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd));
}

static int save_text(const char *path, const char *text)
{
	char tmp[4096];

	snprintf(tmp, sizeof(tmp), "%s.tmp", path);

	return (put_text(tmp, O_TRUNC, text) || rename(tmp, path));
}

static int make_many(const char *prefix, int count)
{
	char path[4096];

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s%d", prefix, i);
		if (put_text(path, 0, ""))
			return (1);
	}

	return (0);
}

int main(int argc, char **argv)
{
	for (int i = 1; i + 2 < argc; i += 3) {
		const char *const a = argv[i + 1], *const b = argv[i + 2];
		int rv;

		switch (argv[i][0]) {
		case 'w': /* PATH TEXT */
			rv = put_text(a, O_TRUNC, b);
			break;
		case 'a': /* PATH TEXT */
			rv = put_text(a, O_APPEND, b);
			break;
		case 's': /* PATH TEXT, by way of another name */
			rv = save_text(a, b);
			break;
		case 'r': /* FROM TO */
			rv = rename(a, b);
			break;
		case 'd': /* PATH - */
			rv = unlink(a);
			break;
		case 'm': /* FOLDER - */
			rv = mkdir(a, 0755);
			break;
		case 'f': /* FOLDER MODE */
			rv = mkdir(a, 0700) || chmod(a, strtol(b, NULL, 8));
			break;
		case 'u': /* FOLDER - */
			rv = rmdir(a);
			break;
		case 'n': /* PREFIX COUNT */
			rv = make_many(a, atoi(b));
			break;
		default:
			rv = 1;
		}
		if (rv) {
			perror(a);
			return (1);
		}
	}

	return (0);
}
