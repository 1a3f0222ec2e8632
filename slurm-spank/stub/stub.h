// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A Slurm that loads the plugin and makes the calls that a test asks for, and a proxyd that gives a
 * test's answers. Each test runs in a process of its own.
 */
#ifndef STUB_STUB_H
#define STUB_STUB_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../message.h"

/* --- slurm.c --- */

enum { STEP_OF_BATCH = -5, STEP_EXTERN = -4, STEP_INTERACTIVE = -6 };

/* slurm is the state of Slurm that the plugin sees, and a record of the plugin's calls. */
struct slurm {
	spank_context_t context;
	int step, task, local, tasks;
	char *argv[8]; /* of the task */
	int argc;
	char said[16384]; /* by slurm_error */
	char *prefix[16]; /* by spank_prepend_task_argv */
	int n_prefix;
	int calls; /* of any spank_ function that changes something */
};
extern struct slurm slurm;

/* How often the plugin made a socket, or changed this process's environment. */
extern int sockets, environment_changes;

/* Load the plugin and initialise the plugin in a context, with arguments up to NULL. */
void load(spank_context_t context, ...);

/*
 * Give an option as a user does; value may be NULL. Returns the result of the plugin's
 * callback.
 */
int give(const char *name, const char *value);

/* How many options are registered, and whether each has a help text and fits a terminal. */
int options_registered(void);
bool options_documented(void);

/* An option in the form that an epilog finds. */
void give_to_epilog(const char *name, const char *value);

int post_opt(void);
int task_as_root(void);
int task_as_user(void);
int epilog(void);

/* The job's environment. */
void job_setenv(const char *name, const char *value);
const char *job_getenv(const char *name);
int job_variables(void);

/* --- proxyd.c --- */

enum { CLOSE = 1, NAMESPACES = 2, HANG = 4, FIVE_FILES = 8, NINE_FILES = 16, AFTER_TERMINATE = 32 };

/*
 * answer is an answer of proxyd: a packet, and flags for its descriptors and for the end of
 * proxyd.
 */
struct answer {
	const char *bytes; /* NULL: proxyd closes the connection without an answer */
	size_t n;
	int flags;
};

#define ANSWER(text, ...) { .bytes = text, .n = sizeof(text), .flags = 0 __VA_OPT__(|) __VA_ARGS__ }

/* The socket's path; the plugin's argument for the path. */
extern char socket_path[108], socket_arg[128];

/* Start a proxyd that gives n answers, an answer for each connection, and then ends. */
void proxyd_start(const struct answer *answers, size_t n);

/* Wait for the next request that proxyd got. */
void proxyd_got(struct message *m);

/* --- test.c --- */

/* Fail the test, unless the expression what is true. */
#define CHECK(what) check((what), #what, __FILE__, __LINE__)
void check(bool holds, const char *what, const char *file, int line);

/* Fail the test, unless text contains part. */
#define CONTAINS(text, part) contains((text), (part), __FILE__, __LINE__)
void contains(const char *text, const char *part, const char *file, int line);

/* Print why a test is not run, and end the test. */
_Noreturn void skip(const char *why);

/*
 * Run f in a child. Returns its wait status, with the text of the child's standard error in said.
 */
int in_child(void (*f)(void), char *said, size_t size);

/* Act as the sbatch or srun of this process's command line: see test_submit.c. */
int submit(void);

struct test {
	const char *name;
	void (*run)(void);
};

extern const struct test value_tests[], message_tests[], option_tests[], submit_tests[], task_tests[], pyxis_tests[], refusal_tests[];

#endif
