// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * sing-warden: the task that Slurm knows. The warden runs as the job's user, in the
 * namespaces of a capsule except its PID namespace, which is for the warden's children. The
 * warden starts the program so that slurmstepd does not see the program, passes signals on,
 * and ends as the program ends. When the warden is killed, the capsule's init kills the
 * program.
 */
#define _GNU_SOURCE
#include "warden.h"

#include "../terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Slurm suspends with SIGTSTP and two seconds later SIGSTOP, which the warden cannot pass
 * on: no process sees its own SIGSTOP.
 */
enum { STOP_AFTER_SECONDS = 1 };

struct warden {
	int sock;    /* to the capsule's init */
	int signals; /* signalfd: all signals that can be caught */
	int stopper; /* timerfd: when it expires after a SIGTSTP, SIGSTOP is sent */
	int steward; /* pidfd; -1 while there is no program */
	bool all;
	struct input input;
};

/* --- before the program runs --- */

/*
 * A pidfd of this process, by which init finds the cgroup that Slurm has put the warden
 * into.
 */
static int pidfd_of_self(void)
{
	const int fd = pidfd_open(getpid(), 0);

	if (fd < 0)
		fprintf(stderr, "singularity: pidfd_open: %s\n", strerror(errno));

	return (fd);
}

static int announce_program(struct warden *w, const char *name, struct program *p)
{
	struct sing_message m = message_of(SING_START, name);
	const int pidfds[] = { p->pidfd, pidfd_of_self() };
	int fd;

	if (pidfds[1] < 0)
		return (-1);
	m.first = p->first;
	if (send_message(w->sock, &m, pidfds, 2) || receive_message(w->sock, &m, &fd)) {
		fprintf(stderr, "singularity: the capsule's init does not answer: %s\n", strerror(errno));
		return (-1);
	}
	if (fd >= 0)
		close(fd);
	if (m.kind == SING_STATUS)
		end_like(m.value); /* the program was killed before it began */
	if (m.kind == SING_REFUSED && m.value == ESRCH)
		end_like(SIGKILL); /* the same, before init knew the program */
	if (m.kind != SING_GO) {
		fprintf(stderr, "singularity: the capsule refuses %s: %s\n", name,
			m.kind == SING_REFUSED ? strerror(m.value) : "unexpected answer");
		return (-1);
	}

	return (0);
}

static int begin_program(struct warden *w, const struct options *o, const sigset_t *mask)
{
	struct program p;
	struct task task;
	struct terminal terminal;
	const bool mpi = find_task(&task, o->name);
	const bool on_terminal = asks_for_terminal();
	const struct launch l = {
		.argv = o->argv, .mask = mask, .mpi = mpi ? &task : NULL, .terminal = on_terminal ? &terminal : NULL,
	};

	if (!mpi && asks_for_pmix()) {
		/* Without a server each task of an MPI program would take itself for the only task. */
		fprintf(stderr, "singularity: srun --mpi=pmix: the environment of %s has no place in a step\n", o->name);
		return (-1);
	}
	if (on_terminal && !find_terminal(&terminal)) {
		fprintf(stderr, "singularity: srun --pty: the environment of %s has no place in a step\n", o->name);
		return (-1);
	}
	forget_places();
	reopen_stdio(o->proc_fd);
	if (o->root_fd >= 0 && enter_container(o->root_fd, o->root_cwd))
		return (-1);
	relay_input(&w->input, false);
	if (start_program(&p, &l))
		return (-1);
	/* Connected after the fork: no other process has ever held this end. */
	w->sock = connect_init();
	if (w->sock < 0) {
		fprintf(stderr, "singularity: the capsule's init is not there: %s\n", strerror(errno));
		return (-1);
	}
	if (announce_program(w, o->name, &p))
		return (-1);
	w->steward = p.pidfd;

	return (release_program(&p));
}

static int begin_restored(struct warden *w, const struct options *o)
{
	const int fds[] = { 0, 1, 2, pidfd_of_self() };
	const struct sing_message m = message_of(SING_RESTORE, o->name);

	if (fds[3] < 0)
		return (-1);
	relay_input(&w->input, true);
	w->sock = connect_init();
	if (w->sock < 0 || send_message(w->sock, &m, fds, 4)) {
		fprintf(stderr, "singularity: the capsule's init is not there: %s\n", strerror(errno));
		return (-1);
	}

	return (0);
}

/* --- while it runs --- */

static void signal_all(const struct warden *w, int sig)
{
	struct sing_message m = message_of(SING_SIGNAL, NULL);

	m.value = sig;
	send_message(w->sock, &m, NULL, 0); /* if init is gone, the program is gone as well */
}

static void arm_stopper(const struct warden *w, time_t seconds)
{
	const struct itimerspec t = { .it_value.tv_sec = seconds };

	timerfd_settime(w->stopper, 0, &t, NULL);
}

static bool ends_by_default(int sig)
{
	return (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT || sig == SIGXCPU);
}

/* A signal of Slurm's: pass the signal on, once. */
static void pass_on(const struct warden *w, int sig)
{
	if (sig == SIGCHLD)
		return; /* SIGCHLD of the go-between */
	if (w->steward < 0) {
		/*
		 * The program was captured and has ended, or is not restored yet: this is the task's only
		 * process.
		 */
		if (ends_by_default(sig))
			end_like(sig);
		return;
	}
	if (sig == SIGTSTP)
		arm_stopper(w, STOP_AFTER_SECONDS);
	if (sig == SIGCONT)
		arm_stopper(w, 0);
	if (w->all || sig == SIGTERM || sig == SIGCONT || sig == SIGTSTP)
		signal_all(w, sig);
	else
		pidfd_send_signal(w->steward, sig, NULL, 0);
}

static void on_signal(const struct warden *w)
{
	struct signalfd_siginfo info;

	if (read(w->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if ((info.ssi_signo == SIGPIPE || info.ssi_signo == SIGXFSZ) && info.ssi_pid == (uint32_t)getpid())
		return; /* the kernel's: the program's input has no reader, or the user has a limit of file sizes */
	pass_on(w, (int)info.ssi_signo);
}

static void on_stopper(const struct warden *w)
{
	uint64_t times;

	if (read(w->stopper, &times, sizeof(times)) == (ssize_t)sizeof(times) && w->steward >= 0)
		signal_all(w, SIGSTOP);
}

/* Read a message of init. If init is gone, the program is gone as well. */
static void on_message(struct warden *w)
{
	struct sing_message m;
	int fd;

	if (receive_message(w->sock, &m, &fd))
		end_like(SIGKILL);
	switch (m.kind) {
	case SING_GO: /* restored */
		w->steward = fd;
		release_input(&w->input);
		return;
	case SING_INPUT:
		take_all_input(&w->input, m.value);
		break;
	case SING_STATUS:
		end_like(m.value);
	case SING_CAPTURED:
		w->steward = -1;
		break;
	case SING_REFUSED:
		_exit(EXIT_NOT_STARTED);
	}
	if (fd >= 0)
		close(fd);
}

static _Noreturn void watch_program(struct warden *w)
{
	struct pollfd fds[5] = {
		{ .fd = w->sock, .events = POLLIN },
		{ .fd = w->signals, .events = POLLIN },
		{ .fd = w->stopper, .events = POLLIN },
	};

	for (;;) {
		if (poll(fds, 3 + input_events(&w->input, fds + 3), -1) < 0)
			continue;
		/* init first: its message may change which program a signal is for. */
		if (fds[0].revents)
			on_message(w);
		else if (fds[1].revents)
			on_signal(w);
		else if (fds[2].revents)
			on_stopper(w);
		else
			pass_input(&w->input);
	}
}

static int compare_fds(const void *a, const void *b)
{
	return (*(const int *)a - *(const int *)b);
}

int main(int argc, char **argv)
{
	struct warden w = { .sock = -1, .signals = -1, .stopper = -1, .steward = -1 };
	struct options o;
	sigset_t all, mask;
	int keep[7];

	if (parse_options(&o, argc, argv))
		return (EXIT_NOT_STARTED);
	w.all = o.all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	if (o.restore ? begin_restored(&w, &o) : begin_program(&w, &o, &mask))
		return (EXIT_NOT_STARTED);
	w.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	w.stopper = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (w.signals < 0 || w.stopper < 0) {
		/* When this process ends, init kills the program. */
		fprintf(stderr, "singularity: signalfd, timerfd: %s\n", strerror(errno));
		return (EXIT_NOT_STARTED);
	}
	keep[0] = w.sock;
	keep[1] = w.signals;
	keep[2] = w.stopper;
	keep[3] = w.steward;
	keep[4] = w.input.from;
	keep[5] = w.input.to;
	keep[6] = w.input.queue;
	qsort(keep, 7, sizeof(keep[0]), compare_fds);
	drop_descriptors(keep, 7);
	if (o.terminated)
		pass_on(&w, SIGTERM);
	watch_program(&w);
}
