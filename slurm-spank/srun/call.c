// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The bytes are strings, each with its NUL:
 *
 *	working folder, "" if it is gone
 *	umask, octal
 *	number of arguments, srun's own name included
 *	the arguments
 *	the environment, to the end
 */
static void put_string(FILE *f, const char *s)
{
	fwrite(s, 1, strlen(s) + 1, f);
}

static void put_all(FILE *f, int argc, char **argv, char **envp)
{
	char number[16];
	char *dir = getcwd(NULL, 0);
	const mode_t mask = umask(0);

	umask(mask);
	put_string(f, dir && dir[0] == '/' ? dir : "");
	free(dir);
	snprintf(number, sizeof(number), "%o", (unsigned int)mask);
	put_string(f, number);
	snprintf(number, sizeof(number), "%d", argc);
	put_string(f, number);
	for (int i = 0; i < argc; ++i)
		put_string(f, argv[i]);
	for (; *envp; ++envp)
		put_string(f, *envp);
}

int describe_call(int argc, char **argv, char **envp)
{
	enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };
	FILE *f = NULL;
	int bad;
	int fd;
	int rv = -1;

	fd = memfd_create("srun", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		goto out;
	f = fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 3), "w");
	if (!f)
		goto out;
	put_all(f, argc, argv, envp);
	bad = ferror(f) | fclose(f);
	f = NULL;
	/*
	 * Sealed: proxyd, which is root, reads the file, and no process may change or shorten it
	 * meanwhile.
	 */
	if (bad || fcntl(fd, F_ADD_SEALS, SEALS))
		goto out;

	rv = fd;
	fd = -1;

out:
	if (rv < 0)
		fprintf(stderr, "singularity: srun: cannot describe the call: %s\n", strerror(errno));
	if (f)
		fclose(f);
	if (fd >= 0)
		close(fd);

	return (rv);
}
