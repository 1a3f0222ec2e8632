// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * `srun --pty` (../terminal.h): this process has the terminal on which srun was typed, and sing-terminal, beside the
 * step's first task, connects to this process. The place is offered wherever --pty may be meant. proxyd decides
 * whether --pty is an option of srun. If --pty is an argument of the program, no process connects, and the terminal
 * stays as it is.
 */
#define _GNU_SOURCE
#include "srun.h"

#include "../terminal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum {
	/* A terminal that can be written to takes as many bytes without waiting (WAKEUP_CHARS of Linux's tty.h). */
	PIECE = 256,
	LAST_PATIENCE = 5000, /* milliseconds for sing-terminal's last output, after srun's end */
};

static struct {
	struct hub_place place;

	int in;	  /* where keys are typed */
	int sock; /* to sing-terminal; -1: none */
	struct winsize window; /* as sing-terminal knows it */
	struct buffer keys;    /* frames that the socket has not taken */
	struct buffer output;  /* that standard output has not taken */
	bool no_keys; /* no more keys can be read */

	bool raw;
	struct termios before;
} terminal = { .sock = -1 };

/* --- the offer --- */

/* The word that may be the option --pty, which may be shortened, or NULL. */
static const char *find_word(int argc, char **argv)
{
	for (int i = 1; i < argc; ++i) {
		if (strncmp(argv[i], "--pt", 4) == 0)
			return (argv[i]);
	}

	return (NULL);
}

static int descriptor_in(const char *word)
{
	const char *value = strchr(word, '=');

	return (value && value[1] >= '0' && value[1] <= '9' ? atoi(value + 1) : 0);
}

/* The size of the user's window. Returns -1 if there is no terminal. */
static int find_window(struct winsize *size)
{
	return (ioctl(1, TIOCGWINSZ, size) == 0 || ioctl(terminal.in, TIOCGWINSZ, size) == 0 ? 0 : -1);
}

void offer_terminal(int argc, char **argv)
{
	const char *word = find_word(argc, argv);
	char text[128], address[INET_ADDRSTRLEN];
	int listener;

	unsetenv(TERMINAL_VARIABLE); /* of the step in which this process was started */
	if (!word)
		return;
	terminal.in = descriptor_in(word);
	if (find_window(&terminal.window)) {
		setenv(TERMINAL_VARIABLE, NO_TERMINAL, 1);
		return;
	}
	listener = listen_for_servers(&terminal.place);
	if (listener < 0 || !inet_ntop(AF_INET, &terminal.place.address, address, sizeof(address))) {
		/* Without the variable, the plugin refuses --pty. */
		fprintf(stderr, "singularity: srun: a terminal cannot be offered: %m\n");
		return;
	}
	wake_at_resize();
	await_secret(listener, terminal.place.secret);
	snprintf(text, sizeof(text), "%s:%d:%s", address, ntohs(terminal.place.port), terminal.place.secret);
	setenv(TERMINAL_VARIABLE, text, 1);
}

/* --- the user's terminal --- */

static void make_raw(void)
{
	struct termios raw;

	if (terminal.raw || tcgetattr(terminal.in, &terminal.before))
		return; /* keys come from a pipe */
	raw = terminal.before;
	cfmakeraw(&raw);
	terminal.raw = tcsetattr(terminal.in, TCSANOW, &raw) == 0;
}

void restore_terminal(void)
{
	if (terminal.raw)
		tcsetattr(terminal.in, TCSANOW, &terminal.before);
	terminal.raw = false;
}

static void send_window(void)
{
	begin_frame(&terminal.keys, FRAME_WINDOW, WINDOW_SIZE);
	add_number(&terminal.keys, terminal.window.ws_row);
	add_number(&terminal.keys, terminal.window.ws_col);
}

/* Tell sing-terminal if the user's window has another size now. */
static void note_window(void)
{
	struct winsize now;

	if (find_window(&now) || (now.ws_row == terminal.window.ws_row && now.ws_col == terminal.window.ws_col))
		return;
	terminal.window = now;
	send_window();
}

static void read_keys(void)
{
	char bytes[TERMINAL_READ_SIZE];
	const ssize_t n = read(terminal.in, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		terminal.no_keys = true; /* as with Slurm, the program sees no end of its input */
		return;
	}
	begin_frame(&terminal.keys, FRAME_KEYS, (size_t)n);
	add_bytes(&terminal.keys, bytes, (size_t)n);
}

static void show_output(void)
{
	const size_t piece = terminal.output.n < PIECE ? terminal.output.n : PIECE;
	const ssize_t n = write(1, terminal.output.bytes, piece);

	if (n > 0)
		drop_bytes(&terminal.output, (size_t)n);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		terminal.output.n = 0; /* the user's terminal has gone */
}

/* --- the connection to sing-terminal --- */

/* The socket is sing-terminal's from now on. */
static void begin_terminal(int sock)
{
	const int on = 1;

	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	terminal.sock = sock;
	drop_strangers();
	make_raw();
	find_window(&terminal.window);
	send_window();
}

static void leave_terminal(void)
{
	close(terminal.sock);
	terminal.sock = -1;
	free_buffer(&terminal.keys);
}

static void send_keys(void)
{
	const ssize_t n = send(terminal.sock, terminal.keys.bytes, terminal.keys.n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		drop_bytes(&terminal.keys, (size_t)n);
	else if (n < 0 && errno != EAGAIN)
		terminal.keys.n = 0; /* the next read finds that sing-terminal has gone */
}

static void take_output(void)
{
	const ssize_t n = read_into(&terminal.output, terminal.sock, TERMINAL_READ_SIZE);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		leave_terminal();
}

/* --- the loop --- */

nfds_t terminal_events(struct pollfd *p)
{
	nfds_t n = 0;

	if (terminal.output.n > 0)
		p[n++] = (struct pollfd){ .fd = 1, .events = POLLOUT };
	if (terminal.sock < 0)
		return (n + connection_events(p + n));
	note_window();
	if (!terminal.no_keys && terminal.keys.n < TERMINAL_MOST)
		p[n++] = (struct pollfd){ .fd = terminal.in, .events = POLLIN };
	if (terminal.keys.n > 0)
		p[n++] = (struct pollfd){ .fd = terminal.sock, .events = POLLOUT };
	if (terminal.output.n < TERMINAL_MOST)
		p[n++] = (struct pollfd){ .fd = terminal.sock, .events = POLLIN };

	/* Last: the connection of a later sing-terminal comes after the end of the earlier sing-terminal's. */
	return (n + connection_events(p + n));
}

/* Serve the listener, or a stranger, which becomes sing-terminal when the secret has come. */
static void serve_connection(int fd)
{
	int sock;

	if (terminal.sock >= 0) {
		refuse_connection();
		return;
	}
	sock = hear_connection(fd);
	if (sock >= 0)
		begin_terminal(sock);
}

static void serve_event(const struct pollfd *p)
{
	if (p->events == POLLOUT && p->fd == 1)
		show_output();
	else if (has_connection(p->fd))
		serve_connection(p->fd);
	else if (terminal.sock < 0)
		return; /* sing-terminal has left just now */
	else if (p->fd == terminal.in)
		read_keys();
	else if (p->fd != terminal.sock)
		return; /* a stranger that was dropped just now */
	else if (p->events == POLLOUT)
		send_keys();
	else
		take_output();
}

void serve_terminal(const struct pollfd *p, nfds_t n)
{
	for (nfds_t i = 0; i < n; ++i) {
		if (p[i].revents != 0)
			serve_event(&p[i]);
	}
	drop_silent_strangers(); /* after their events: the secret may have come while this process stood still */
	if (terminal.sock < 0 && terminal.output.n == 0)
		restore_terminal();
}

/* Whether a signal has come that ends srun. */
static bool must_end(void)
{
	const int sig = take_signal();

	if (sig)
		put_back_signal(sig);

	return (sig && ends_by_default(sig));
}

void finish_terminal(void)
{
	struct pollfd p[TERMINAL_EVENTS];

	close_listener();
	terminal.no_keys = true;
	while ((terminal.sock >= 0 || terminal.output.n > 0) && !must_end()) {
		const nfds_t n = terminal_events(p);
		/* The reader of standard output may be slow, as a pager is. */
		const int come = await_events(p, n, terminal.output.n > 0 ? -1 : LAST_PATIENCE);

		if (come == 0)
			break; /* sing-terminal was killed with its node */
		if (come > 0)
			serve_terminal(p, n);
	}
	restore_terminal();
}
