// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

int enter_container(int root_fd, const char *cwd)
{
	unsigned char said = 0;
	ssize_t n;
	int rv = -1;

	/*
	 * The plugin has set no_new_privs. A program must never have a root of the user's without
	 * it.
	 */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		fprintf(stderr, "singularity: the container is refused: this process may gain privileges\n");
		goto out;
	}
	n = send(root_fd, "", 1, MSG_NOSIGNAL);
	while (n == 1) {
		n = read(root_fd, &said, 1);
		if (n >= 0 || errno != EINTR)
			break;
		n = 1;
	}
	if (n != 1 || said) {
		fprintf(stderr, "singularity: the container's root cannot be entered: %s\n",
			strerror(n == 1 ? said : EPIPE));
		goto out;
	}
	if (chdir(cwd) && chdir("/")) {
		fprintf(stderr, "singularity: the container's root: %s\n", strerror(errno));
		goto out;
	}

	rv = 0;

out:
	close(root_fd);

	return (rv);
}
