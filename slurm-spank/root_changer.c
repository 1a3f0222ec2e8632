// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "root_changer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOT_FD = 701 }; /* a high number, like PROC_FD of capsule.c */

/* A fork that shares root and working directory with its parent. */
static pid_t fork_sharing_root(void)
{
	return ((pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, NULL));
}

/* The code of the root changer's process. It has two descriptors: sock is 0, root is 1. */
static _Noreturn void change_root(int sock, int root)
{
	unsigned char said = 0;
	ssize_t n;

	if (dup2(sock, 0) < 0 || dup2(root, 1) < 0)
		_exit(1);
	close_range(2, UINT_MAX, 0);
	prctl(PR_SET_NAME, "sing-root");
	do {
		n = read(0, &said, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(0); /* the task has ended */
	said = fchdir(1) || chroot(".") ? (unsigned char)errno : 0;
	do {
		n = write(0, &said, 1);
	} while (n < 0 && errno == EINTR);
	_exit(0);
}

/*
 * Start the root changer by two forks: its parent becomes the capsule's init, and the task
 * has no child to wait for.
 */
static int start_detached(int sock, int root)
{
	const pid_t pid = fork_sharing_root();
	int status;

	if (pid < 0)
		return (-1);
	if (pid == 0) {
		const pid_t inner = fork_sharing_root();

		if (inner == 0)
			change_root(sock, root);
		_exit(inner < 0);
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return (-1);
	}
	if (status) {
		errno = EAGAIN;
		return (-1);
	}

	return (0);
}

int root_changer_start(const char *root)
{
	int pair[2] = { -1, -1 };
	int folder = -1;
	int rv = -1;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return (-1);
	folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		goto out;
	rv = fcntl(pair[0], F_DUPFD, ROOT_FD);
	if (rv >= 0 && start_detached(pair[1], folder)) {
		close(rv);
		rv = -1;
	}

out:
	for (int i = 0; i < 2; ++i) {
		if (pair[i] >= 0)
			close(pair[i]);
	}
	if (folder >= 0)
		close(folder);

	return (rv);
}
