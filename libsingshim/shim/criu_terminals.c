// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The part of libsingshim-criu.so for terminals.
 *
 * Sessions, at a restore. A process has the terminal of its
 * session because its parent had that terminal when it made the process; only the first process of a session can take
 * the terminal by itself. criu makes all processes, and then has the first process of each session take the terminal: the
 * other processes would have no terminal. So the first process takes the terminal here, when criu has it begin its
 * session, before criu has it make the processes of its session. proxyd has made the terminals by then, and keeps them
 * open.
 *
 * SINGULARITY_SESSIONS has a line for each session: its number and the path of its terminal. SINGULARITY_DETACHED is a
 * list of the processes that had no terminal, though their sessions have one (TIOCNOTTY in ioctl_tty(2)).
 *
 * Bytes in a terminal, at a dump and a restore. criu reads the bytes that wait in either direction, and writes the same
 * bytes to the other side again. The kernel has processed these bytes once: it would echo typed bytes a second time,
 * and put one more carriage return before each end of a line. So the terminal's processing is off while criu writes.
 * A terminal that is full, because its reader is slow, takes the same number of bytes again only in small pieces.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
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

/* Every process of criu's binds a socket before it makes its children (open_transport_socket in criu/files.c). A process
 * that had no terminal then gives up the terminal that it has inherited from its parent. */
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

/* Whether fd is a side of a pseudo terminal. */
static bool is_terminal(int fd)
{
	struct stat st;

	return (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && (major(st.st_rdev) == 136 || st.st_rdev == makedev(5, 2)));
}

/* How many bytes can be read from a side of a terminal. */
static int count_waiting(int fd)
{
	int n = 0;

	return (ioctl(fd, FIONREAD, &n) == 0 ? n : 0);
}

/*
 * The kernel processes bytes that were written to the driving side later, some 2 KiB at a time, or when the other side
 * is polled and has no bytes. So this waits until a number of bytes has arrived. A terminal may take fewer bytes than
 * were written, so the wait has an end.
 */
static void await_processing(int other, int wanted)
{
	struct pollfd p = { .fd = other, .events = POLLIN };

	for (int tries = 0; tries < 1000; tries++) {
		(void)poll(&p, 1, 0);
		if (count_waiting(other) >= wanted)
			return;
		usleep(100);
	}
}

enum {
	/* The kernel keeps bytes in pieces of this size (TTY_BUFFER_PAGE in linux/tty.h, with pages of 4 KiB), and a piece
	 * that was read in part counts as a whole. */
	PIECE = 1792,
	FULL_WAITS = 1000, /* of 1 ms: until a terminal counts as full */
};

/* Write in pieces. A terminal without room ends that, where criu's own write would wait for ever: the terminal's reader is
 * not restored yet. Returns how much was written, or -1. */
static ssize_t write_pieces(int fd, const char *bytes, size_t n)
{
	const int flags = fcntl(fd, F_GETFL);
	ssize_t written = 0;
	int waits = 0;

	(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while ((size_t)written < n) {
		const size_t left = n - (size_t)written;
		const ssize_t part = syscall(SYS_write, fd, bytes + written, left < PIECE ? left : PIECE);

		if (part > 0) {
			written += part;
			waits = 0;
		} else if (part == 0 || (errno != EAGAIN && errno != EINTR) || waits++ == FULL_WAITS) {
			break;
		} else {
			usleep(1000);
		}
	}
	(void)fcntl(fd, F_SETFL, flags);

	return (written > 0 || n == 0 ? written : -1);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	struct termios was, plain;
	ssize_t written;
	int e, other, before;

	if (!is_terminal(fd) || tcgetattr(fd, &was) < 0)
		return (syscall(SYS_write, fd, bytes, n));
	plain = was;
	plain.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ISIG | IEXTEN);
	plain.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | ISTRIP | IUCLC | PARMRK);
	plain.c_oflag &= ~(tcflag_t)OPOST;
	(void)tcsetattr(fd, TCSANOW, &plain);
	other = ioctl(fd, TIOCGPTPEER, O_RDONLY | O_NOCTTY | O_CLOEXEC); /* -1: fd is the other side, which processes at once */
	before = other >= 0 ? count_waiting(other) : 0;
	written = write_pieces(fd, bytes, n);
	e = errno;
	if (other >= 0) {
		if (written > 0)
			await_processing(other, before + (int)written);
		close(other);
	}
	(void)tcsetattr(fd, TCSANOW, &was);
	errno = e;

	return (written);
}
