// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include "../warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * How long proxyd may be absent before that is an error, in milliseconds: longer than an upgrade
 * takes.
 */
enum { PATIENCE = 120 * 1000, FIRST_PAUSE = 20, LONGEST_PAUSE = 1000 };

/*
 * Open /dev/null for closed standard descriptors: the next file that is opened would get their
 * numbers.
 */
static void fill_stdio(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd < 3);
	if (fd > 2)
		close(fd);
}

/*
 * Pause before asking again, longer each time. There is no event to wait for: a watch
 * on proxyd's folder would tie this process to a file system of the node.
 *
 * As long as srun does not run, a signal has its usual effect on this process.
 */
static void pause_for(int *pause)
{
	int sig;

	wait_readable(-1, *pause);
	*pause = *pause * 2 < LONGEST_PAUSE ? *pause * 2 : LONGEST_PAUSE;
	while ((sig = take_signal())) {
		if (ends_by_default(sig)) {
			restore_terminal();
			end_like(sig);
		}
	}
}

/* Ask until proxyd takes the call. Returns the status pipe, or -1 after saying why. */
static int ask_patiently(const char *key, int argc, char **argv, char **envp)
{
	int pause = FIRST_PAUSE;
	int waited = 0;

	for (;;) {
		const int call = describe_call(argc, argv, envp);
		int status;
		int why;

		if (call < 0)
			return (-1);
		status = ask(key, call);
		why = errno;
		close(call);
		if (status >= 0)
			return (status);
		if (!try_again(why) || waited >= PATIENCE) {
			fprintf(stderr, "singularity: srun: proxyd does not answer at %s: %s\n", SING_SRUN_SOCKET, strerror(why));
			return (-1);
		}
		waited += pause;
		pause_for(&pause);
	}
}

/* Send signals that have come to srun. Returns whether a signal is left for later. */
static bool pass_on(const struct answer *a)
{
	int sig;

	if (!a->started)
		return (false); /* srun does not run yet; the arrival of its key ends the wait */
	while ((sig = take_signal())) {
		if (ask_signal(a->key, sig)) {
			if (!try_again(errno))
				continue;
			put_back_signal(sig);
			return (true);
		}
		if (sig == SIGTSTP)
			raise(SIGSTOP); /* the process that has sent the signal expects this process to stop */
	}

	return (false);
}

/* Read the answers until the pipe's other end is closed, or the answer is complete. */
static void await_answer(int status, struct answer *a)
{
	for (;;) {
		const bool left = pass_on(a);
		struct pollfd p = { .fd = status, .events = POLLIN };
		char bytes[512];
		ssize_t n;

		wait_readable(status, left ? LONGEST_PAUSE : -1);
		if (poll(&p, 1, 0) <= 0 || p.revents == 0)
			continue;
		n = read(status, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		take_in(a, bytes, (size_t)n);
		if (a->status >= 0 || a->reason[0])
			return;
	}
}

static void finish_streams(void)
{
	finish_terminal();
	finish_output();
}

int main(int argc, char **argv)
{
	struct answer a = { .status = -1 };
	int pause = FIRST_PAUSE;

	if (called_as_scontrol())
		return (run_scontrol(argc, argv, environ));
	fill_stdio();
	take_signals();
	offer_pmi(argc, argv);
	offer_terminal(argc, argv);
	relay_output();
	begin_feeding();
	for (;;) {
		const int status = ask_patiently(a.key, argc, argv, environ);

		if (status < 0) {
			finish_streams();
			return (CODE_REFUSED);
		}
		a.started = a.reads_nothing = a.skipping = false;
		a.n = 0;
		take_all_output(false);
		await_answer(status, &a);
		want_input(false);
		close(status);
		if (a.status >= 0) {
			finish_streams();
			end_like(a.status);
		}
		if (a.reason[0]) {
			finish_streams();
			fprintf(stderr, "singularity: srun: %s\n", a.reason);
			return (CODE_REFUSED);
		}
		/*
		 * End of file: this process was restored, or proxyd died before it had started
		 * srun, which it might do each time.
		 */
		if (a.started)
			pause = FIRST_PAUSE;
		pause_for(&pause);
	}
}
