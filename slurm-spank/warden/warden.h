// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The functions that the files of the warden share: options, descriptors, input, messages, and the end of the process.
 */
#ifndef SING_WARDEN_WARDEN_H
#define SING_WARDEN_WARDEN_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../exit_codes.h"
#include "message.h"

struct task;	 /* ../pmi/pmi.h */
struct terminal; /* ../terminal.h */

/* options is the command line. */
struct options {
	const char *name; /* names the program within the capsule */
	int proc_fd;	  /* O_PATH descriptor of the host's /proc, or -1 */
	int root_fd;	  /* socket of the root changer (root_changer.h), or -1 */
	const char *root_cwd; /* with root_fd: the program's folder */
	bool all;	  /* every signal goes to every process of the program */
	bool restore;	  /* the program is not started: proxyd restores it */
	bool terminated;  /* SIGTERM came before this process became the warden */
	char **argv;
};

/* --- options.c --- */

/*
 * Fill o from the environment, if the environment has the options, or else from the command
 * line. Takes them out of the environment. On error the reason has been printed.
 */
int parse_options(struct options *o, int argc, char **argv);

/* --- stdio.c --- */

/*
 * Open standard input, output and error again by their paths, where they are files or
 * character devices, so that they belong to this mount namespace. A descriptor stays as it is if
 * its path cannot be opened, or leads to another file now. proc_fd is closed.
 */
void reopen_stdio(int proc_fd);

/*
 * Close every inherited descriptor: as long as this process held the ends of the program's pipes,
 * no reader would see an end of file. /dev/null takes the places of 0, 1 and
 * 2. keep is in rising order, and may begin with -1s.
 */
void drop_descriptors(const int *keep, size_t n);

/* --- input.c --- */

/* input is the standard input of a program, on its way from slurmstepd. */
struct input {
	int from;    /* slurmstepd's pipe; -1 after its end */
	int to;	     /* the program's pipe; -1 when the program has closed it */
	int queue;   /* a file: input for which the pipe had no room, bytes at..end; -1: input is not relayed */
	off_t at, end;
	off_t freed; /* the file has no memory before this place */
	bool held;   /* the program is not there yet */
	bool all;    /* take all input, for a checkpoint */
	bool full;   /* the program's pipe is full, and there may be more input */
	bool stuck;  /* the queue takes no more */
	bool over;   /* the input had ended before a restore: bytes from slurmstepd are not passed on */
};

/*
 * Where descriptor 0 is a pipe of slurmstepd, make descriptor 0 a pipe of the program's own. held: no bytes
 * are written into that pipe before release_input.
 */
void relay_input(struct input *in, bool held);

/* The program has been restored, with its pipe; the bytes in the queue's file come next. */
void release_input(struct input *in);

/* Set whether all input is taken, for a checkpoint, or only as much as the program's pipe has room for. */
void take_all_input(struct input *in, bool all);

/* Fill p with the events of the input to wait for. p has room for two. */
nfds_t input_events(const struct input *in, struct pollfd *p);

/* Pass on input, as far as there is room. Never waits. */
void pass_input(struct input *in);

/* --- root.c --- */

/*
 * Take the root of the task's container, and go to its folder cwd, or to / if the container has no
 * such folder. Closes root_fd. On error the reason has been printed.
 */
int enter_container(int root_fd, const char *cwd);

/* --- start.c --- */

/* program is a started program, which waits to be let go. */
struct program {
	pid_t first; /* the steward's child, in the capsule: the program, or what drives its terminal */
	int pidfd;   /* of its steward; -1 once it was sent to init */
	int gate;    /* a byte lets the program go, closing makes it exit; -1 when used */
};

/* launch has the facts of the program that the warden passes on to the program's process. */
struct launch {
	char **argv;
	const sigset_t *mask;		 /* of the program */
	const struct task *mpi;		 /* NULL without PMI */
	const struct terminal *terminal; /* NULL without srun --pty */
};

/*
 * Fork the program and its steward, and what serves the program: its server of PMI, and the process that drives its
 * terminal. All signals must be blocked. On error the reason has been printed, and no process is left.
 */
int start_program(struct program *p, const struct launch *l);

/* Let the program go. */
int release_program(struct program *p);

/* --- mpi.c --- */

/* Whether the environment says that this process is a task that uses PMI; then fills t. name is the program's. */
bool find_task(struct task *t, const char *name);

/* Whether the environment says that the task is to be served by PMIx. */
bool asks_for_pmix(void);

/* Take the places of the hub and of the terminal, which have secrets, out of the environment. */
void forget_places(void);

/*
 * Start the server of this process, which is about to become the program, and put into the environment how the program
 * reaches it. All signals must be blocked. Returns -1 on error.
 */
int start_server(const struct task *t);

/* --- terminal.c --- */

/* Whether the environment says that the step has --pty. */
bool asks_for_terminal(void);

/* Fill t from the environment. Returns false if the environment has no place in a step with a terminal. */
bool find_terminal(struct terminal *t);

/*
 * Give this process, which is about to become the program, its terminal: this function returns in a child, with the
 * terminal as its standard input, output and error, while this process drives the terminal, and ends as the child
 * ends. All signals must be blocked. Returns -1 after printing why.
 */
int take_terminal(const struct terminal *t);

/* --- steward.c --- */

/* The code of a program's steward. All signals must be blocked. */
_Noreturn void steward(pid_t first);

/* --- init.c --- */

/* Connect to the capsule's init. Returns the socket, or -1 with errno. */
int connect_init(void);

/*
 * Send m with n descriptors, n ≤ 4. Returns -1 with errno when m was not sent whole. The
 * caller keeps the descriptors.
 */
int send_message(int sock, const struct sing_message *m, const int *fds, size_t n);

/*
 * Receive a message and at most a single descriptor; *fd is -1 without a descriptor, else
 * the caller's. Returns -1 with errno, EPIPE at the end of file, EPROTO if the packet is no
 * message.
 */
int receive_message(int sock, struct sing_message *m, int *fd);

/* An empty message of a kind. name may be NULL. */
struct sing_message message_of(enum sing_kind kind, const char *name);

/* --- mirror.c --- */

/* End in the way that a status of waitpid describes, but without a core file of this process. */
_Noreturn void end_like(int status);

#endif
