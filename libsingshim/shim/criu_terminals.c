// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The part of libsingshim-criu.so for a restore of sessions that have a terminal. A process has the terminal of its
 * session because its parent had that terminal when it made the process; only the first process of a session can take
 * the terminal by itself. criu makes all processes, and then has the first process of each session take the terminal: the
 * other processes are without. So the first process takes the terminal here, when criu has it begin its session, before
 * criu has it make the processes of its session. proxyd has made the terminals by then, and keeps them open.
 *
 * SINGULARITY_SESSIONS has a line for each session: its number and the path of its terminal. SINGULARITY_DETACHED is a
 * list of the processes that had no terminal, though their sessions have one (TIOCNOTTY in ioctl_tty(2)).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Writes the path of the terminal of a session, if the session has one. */
static bool find_terminal(pid_t session, char path[static PATH_MAX])
{
	const char *line = getenv("SINGULARITY_SESSIONS");

	while (line != NULL && *line != '\0') {
		char *name;
		long number = strtol(line, &name, 10);
		size_t size;

		if (*name != ' ')
			return (false);
		name++;
		size = strcspn(name, "\n");
		if (number == session && size < PATH_MAX) {
			memcpy(path, name, size);
			path[size] = '\0';
			return (true);
		}
		line = name[size] == '\n' ? name + size + 1 : NULL;
	}

	return (false);
}

/* criu begins a session (restore_sid in criu/cr-restore.c), and ends the restore if that fails. */
pid_t setsid(void)
{
	pid_t session = (pid_t)syscall(SYS_setsid);
	char path[PATH_MAX];
	int terminal;

	if (session < 0 || !find_terminal(session, path))
		return (session);
	terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (terminal < 0)
		return (-1);
	if (ioctl(terminal, TIOCSCTTY, 0) < 0)
		session = -1;
	close(terminal);

	return (session);
}

static bool is_detached(pid_t process)
{
	const char *list = getenv("SINGULARITY_DETACHED");

	while (list != NULL && *list != '\0') {
		char *end;
		long n = strtol(list, &end, 10);

		if (end == list)
			return (false);
		if (n == process)
			return (true);
		list = *end == ',' ? end + 1 : end;
	}

	return (false);
}

/* Every process of criu's binds a socket before it makes its children (open_transport_socket in criu/files.c). One that
 * had no terminal gives up what it has from its parent. */
int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	int bound = (int)syscall(SYS_bind, fd, address, size);
	int was = errno, terminal;

	if (!is_detached(getpid()))
		return (bound);
	terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
	if (terminal >= 0) {
		(void)ioctl(terminal, TIOCNOTTY);
		close(terminal);
	}
	errno = was;

	return (bound);
}
