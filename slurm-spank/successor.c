// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "successor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "packet.h"
#include "wire.h"

/* Receive a handover. Returns false if the task's process has ended. */
static bool receive_handover(int sock, struct handover *h)
{
	int fds[GIVEN];
	char control[CMSG_SPACE(sizeof(fds))];
	struct iovec data = { &h->mask, sizeof(h->mask) };
	struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	n = packet_receive(sock, &m);
	c = n == (ssize_t)sizeof(h->mask) ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(fds)))
		return (false);
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	for (int i = 0; i < GIVEN - 1; ++i) {
		if (dup2(fds[i], i) < 0)
			return (false);
		if (fds[i] > 2)
			close(fds[i]);
	}
	h->environment = fds[GIVEN - 1];

	return (true);
}

/* A file of /proc, whole. Returns the length, or -1. */
static ssize_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	if (n >= 0)
		text[n] = '\0';

	return (n);
}

/* Move this process into a cgroup, named as in /proc/PID/cgroup: "N:controllers:path". */
static void enter_cgroup(char *line)
{
	static const char *const unified[] = { "", "/unified" };
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return;
	*path++ = '\0';
	controllers++;
	if (strncmp(controllers, "name=", 5) == 0)
		controllers += 5;
	for (size_t i = 0; i < 2; ++i) {
		char file[PATH_MAX + 64];
		int fd;

		if (*controllers)
			snprintf(file, sizeof(file), "/sys/fs/cgroup/%s%s/cgroup.procs", controllers, path);
		else
			snprintf(file, sizeof(file), "/sys/fs/cgroup%s%s/cgroup.procs", unified[i], path);
		fd = open(file, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (write(fd, "0", 1) != 1) {
			/* successor_wait compares the cgroups afterwards */
		}
		close(fd);
	}
}

/* Take the cgroups of a process. Returns -1 if this process is in other cgroups then. */
static int take_cgroups(pid_t of)
{
	static char theirs[16 * 1024], mine[16 * 1024], lines[16 * 1024];
	char *rest = NULL;

	if (read_proc(of, "cgroup", theirs, sizeof(theirs)) < 0)
		return (-1);
	memcpy(lines, theirs, sizeof(lines));
	for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		enter_cgroup(line);
	if (read_proc(getpid(), "cgroup", mine, sizeof(mine)) < 0)
		return (-1);

	return (strcmp(theirs, mine) == 0 ? 0 : -1);
}

static void take_processors(pid_t of)
{
	enum { PROCESSORS = 16 * 1024 };
	cpu_set_t *set = CPU_ALLOC(PROCESSORS);

	if (set && sched_getaffinity(of, CPU_ALLOC_SIZE(PROCESSORS), set) == 0)
		sched_setaffinity(0, CPU_ALLOC_SIZE(PROCESSORS), set);
	CPU_FREE(set);
}

/* Whether a process is in another namespace of a kind than this process; -1: unknown. */
static int namespace_differs(pid_t pid, const char *kind)
{
	char path[64];
	struct stat theirs, mine;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	if (stat(path, &theirs))
		return (-1);
	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &mine))
		return (-1);

	return (theirs.st_ino != mine.st_ino || theirs.st_dev != mine.st_dev);
}

const char *successor_wait(int sock, bool alone, struct handover *h)
{
	const pid_t task = getppid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != task || !receive_handover(sock, h))
		_exit(0);
	if (take_cgroups(task))
		return ("the cgroup of the task cannot be entered");
	take_processors(task);
	if (setpgid(0, alone ? 0 : getpgid(task)))
		return ("the process group of the task cannot be entered");

	return (NULL);
}

const char *successor_add_container(struct message *request)
{
	static const char *const kept[] = { "net", "ipc", "uts", "pid" };
	const pid_t task = getppid();

	if (namespace_differs(task, "mnt") != 1)
		return ("pyxis has not put this task into a container: its line in plugstack.conf of this node must come "
			"before this plugin's, and say required");
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); ++i) {
		if (namespace_differs(task, kept[i]) != 0)
			return ("--container-unshare, and ENROOT_UNSHARE_… of enroot's: a container of a protected job has the network, "
				"IPC, host name and processes of the job; run this step without that, or with --singularity=off");
	}
	message_add_number(request, SING_KEY_CONTAINER_PID, (unsigned long)task);

	return (NULL);
}

/* Replace the variables of the task. text is NAME=VALUE…, each with a NUL. */
static void replace_environment(spank_t sp, char *text, size_t size)
{
	char **env = NULL;
	char **names;
	size_t n = 0;

	if (spank_get_item(sp, S_JOB_ENV, &env) == ESPANK_SUCCESS && env) {
		while (env[n])
			n++;
		names = calloc(n + 1, sizeof(*names));
		for (size_t i = 0; names && i < n; ++i)
			names[i] = strndup(env[i], strcspn(env[i], "="));
		for (size_t i = 0; names && i < n; ++i) {
			if (names[i])
				spank_unsetenv(sp, names[i]);
			free(names[i]);
		}
		free(names);
	}
	for (char *at = text; at < text + size; at += strlen(at) + 1) {
		char *equals = strchr(at, '=');

		if (!equals)
			continue;
		*equals = '\0';
		spank_setenv(sp, at, equals + 1, 1);
		*equals = '=';
	}
}

static int take_environment(spank_t sp, int fd)
{
	struct stat st;
	char *text;
	off_t at = 0;

	if (fstat(fd, &st) || st.st_size > INT_MAX || !(text = calloc((size_t)st.st_size + 1, 1)))
		return (-1);
	while (at < st.st_size) {
		const ssize_t n = pread(fd, text + at, (size_t)(st.st_size - at), at);

		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		at += n > 0 ? n : 0;
	}
	if (at == st.st_size)
		replace_environment(sp, text, (size_t)at);
	free(text);

	return (at == st.st_size ? 0 : -1);
}

int successor_become_user(spank_t sp, const struct handover *h)
{
	const pid_t task = getppid();
	gid_t *groups = NULL;
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	int n = 0;

	if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &groups, &n) != ESPANK_SUCCESS) {
		errno = EINVAL;
		return (-1);
	}
	if (setgroups((size_t)n, groups) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return (-1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten when a process changes its user */
	if (getppid() != task)
		_exit(0);

	return (take_environment(sp, h->environment));
}

_Noreturn void successor_step_back(int sock)
{
	send(sock, "", 1, MSG_NOSIGNAL);
	_exit(0);
}
