// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * sing-srun: the srun that programs of a capsule see. The real srun runs outside of the capsule,
 * started by proxyd with this process's descriptors; this process waits for srun's end and has no
 * descriptor that ties it to the node, so that it can be captured and restored like any other
 * program.
 *
 *	sing-srun                                            proxyd
 *	─────────                                            ──────
 *	socket: "srun", fds 0 1 2, pipe, memfd ────────────► starts srun
 *	closes the socket
 *	pipe:                                           ◄──  input none
 *	                                                ◄──  key KEY
 *	                                                ◄──  output all | output paced
 *	                                                ◄──  exit N | signal N | no REASON
 *	ends likewise
 *
 *	socket: "signal", closes it at once ───────────────► sends it to srun
 *	end of file without a status: restored, or proxyd
 *	died too early; asks again, with the key it has
 *	is killed: the pipe has no reader ─────────────────► ends srun
 *
 * The answers come by the pipe and not by the socket: a socket with its other end outside
 * of the capsule cannot be captured, and proxyd may be about to answer when it has just
 * frozen this process.
 */
#ifndef SING_SRUN_SRUN_H
#define SING_SRUN_SRUN_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	KEY_SIZE = 48,	     /* as SING_NAME_SIZE, of which keys become a part */
	REASON_SIZE = 1024,
	CODE_REFUSED = 1,    /* the exit code of srun when it cannot run a step */
};

/* --- call.c --- */

/*
 * A sealed memfd that holds the call: folder, umask, arguments, environment. The caller
 * closes the memfd. Returns -1 after printing why.
 */
int describe_call(int argc, char **argv, char **envp);

/* --- ask.c --- */

/*
 * Pass the call to proxyd. Returns the end of the status pipe to read from, or -1 with errno;
 * try_again tells whether a later attempt makes sense. key is "" in the first request.
 */
int ask(const char *key, int call);

/* Whether an error of ask or ask_signal may mean that proxyd is just being started. */
bool try_again(int error);

/* Ask proxyd to send a signal to srun. Returns -1 with errno. */
int ask_signal(const char *key, int sig);

/*
 * Tell proxyd that this process is about to have Slurm requeue a job. Returns the reading end of a
 * pipe that proxyd closes at the other end when it has noted that, or -1 with errno.
 */
int ask_noted(void);

/* --- mpi.c --- */

/*
 * If the step may be one of MPI, start the hub for its tasks, and put the hub's place into the environment.
 * Without a hub, the variable is removed.
 */
void offer_pmi(int argc, char **argv);

/* --- scontrol.c --- */

/* Whether this process was started as scontrol. */
bool called_as_scontrol(void);

/* Become the real scontrol. Returns an exit code if that fails. */
int run_scontrol(int argc, char **argv, char **envp);

/* --- answer.c --- */

struct answer {
	char key[KEY_SIZE];	  /* "" until the key has come */
	bool started;		  /* a key has come: srun runs */
	bool reads_nothing;	  /* srun does not read its standard input */
	int status;		  /* in waitpid's form; -1 until the status has come */
	char reason[REASON_SIZE]; /* why proxyd refuses; "" if proxyd does not */
	char line[REASON_SIZE];	  /* the part of a line that has come */
	size_t n;
	bool skipping; /* the rest of a line that is too long */
};

/* Take in bytes that were read from the pipe. */
void take_in(struct answer *a, const char *bytes, size_t n);

/* --- signals.c --- */

/*
 * Take over the signals that srun handles itself. They are blocked except in
 * await_events.
 */
void take_signals(void);

/* A signal that has come and was not taken yet, or 0; the lowest number first. */
int take_signal(void);

/* Put a signal back, to be taken again. */
void put_back_signal(int sig);

/* Whether a signal ends a process without a handler for that signal. */
bool ends_by_default(int sig);

/*
 * From now on await_events returns when the window of the terminal of this process has another size. srun is not told.
 */
void wake_at_resize(void);

/* As poll; returns -1 when a signal comes. milliseconds is -1 for ever. */
int await_events(struct pollfd *p, nfds_t n, int milliseconds);

/* The time of the monotonic clock. */
long milliseconds_now(void);

/* --- input.c --- */

/*
 * From now on, where standard input is a pipe, a socket or a file, srun gets it through this process, during
 * wait_readable.
 */
void begin_feeding(void);

/* The descriptor that srun gets for descriptor 0 of this process. */
int input_for_srun(void);

/* Set whether an srun runs that reads its input. */
void want_input(bool wanted);

/* Set whether input is held back, for which proxyd asks at a checkpoint. */
void hold_input(bool held);

/* Pass on input, as far as srun's pipe has room. Waits only where a file does not answer. */
void feed_srun(void);

/* Fill p with the events of the input to wait for. p has room for one. */
nfds_t feeding_events(struct pollfd *p);

/* --- terminal.c --- */

enum { TERMINAL_EVENTS = 10 };

/*
 * If srun may have the option --pty, listen for the process that makes the step's terminal, and set TERMINAL_VARIABLE
 * to this process's place, or to NO_TERMINAL where srun was typed on no terminal. Without --pty, and where this process
 * cannot listen, TERMINAL_VARIABLE is removed from the environment.
 */
void offer_terminal(int argc, char **argv);

/* Fill p with the events of the terminal to wait for. p has room for TERMINAL_EVENTS. */
nfds_t terminal_events(struct pollfd *p);

/* Pass on keys and output, as the events that have come allow, and drop connections that have not shown the secret. */
void serve_terminal(const struct pollfd *p, nfds_t n);

/* srun has ended: return when all output of the terminal has been shown. The user's terminal is as before then. */
void finish_terminal(void);

/* Give the user's terminal its mode from before. */
void restore_terminal(void);

/* --- strangers.c --- */

/*
 * Let processes connect to a listener, and wait for the secret. The caller keeps the secret in memory. The other
 * functions may be called before this function, too.
 */
void await_secret(int at, const char *shown);

/* Fill p with the events of the listener and of the strangers to wait for. */
nfds_t connection_events(struct pollfd *p);

/* Milliseconds after which serve_terminal must be called although no event has come, or -1. */
int connection_patience(void);

/* Whether fd is the listener or a stranger. */
bool has_connection(int fd);

/* Accept a connection, or read from a stranger. Returns the stranger's socket if the secret has come, else -1. */
int hear_connection(int fd);

/* Accept a connection and close it. */
void refuse_connection(void);

void drop_strangers(void);

/* Drop the strangers that have not shown the secret in time. */
void drop_silent_strangers(void);

/* Let no process connect any more. */
void close_listener(void);

/* --- output.c --- */

/*
 * From now on, where standard output and error are pipes or sockets, srun's output for
 * them comes through this process, during wait_readable and finish_output.
 */
void relay_output(void);

/* The descriptor that srun gets for descriptor fd of this process, 1 or 2. */
int output_for_srun(int fd);

/*
 * Set whether all output of srun is taken in, for which proxyd asks at a checkpoint, or only as
 * much as the reader takes.
 */
void take_all_output(bool all);

/*
 * Wait until fd can be read, a signal has come, or milliseconds have passed. fd is -1 to wait for
 * no descriptor, and milliseconds is -1 to wait for ever.
 */
void wait_readable(int fd, int milliseconds);

/* srun has ended: return when all of its output has been read. A signal that ends srun ends this process. */
void finish_output(void);

#endif
