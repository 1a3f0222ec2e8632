// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * sing-pmix: PMIx for a task of `srun --mpi=pmix`. It stands where sing-pmi stands for PMI-2 (../pmi/pmi.h):
 * beside the task, child of the task's steward, captured and restored with the task. PMIx's messages differ from
 * version to version, so the server is the one of PMIx's own library, as it is in Slurm's plugin. That library must
 * be as new as the one in the MPI program, or newer.
 *
 *	task ──TCP on 127.0.0.1── libpmix ──upcalls.c── link.c ──frames──┐
 *	                          one process: sing-pmix                 │
 *	task ─────────────────────────────────────────── sing-pmix ──────┴── hub, of sing-srun
 *
 * PMIx tells the tasks which of them share a node, but they must not share memory: the image of a single task cannot
 * hold shared memory. So MPI libraries are told to talk by TCP (job.c).
 *
 *	sing-pmix --check                  checks that the library can be loaded, or prints why not
 *	sing-pmix RANK SIZE STEP PROGRAM   serves; PROGRAM is killed when another task aborts
 *
 * The hub's place is in the environment. When the server is ready, the variables that the task needs are written to
 * PMIX_ENVIRONMENT_FD, each with its NUL, and an empty one at the end; without that end the server has failed.
 */
#ifndef SING_PMIX_PMIX_H
#define SING_PMIX_PMIX_H

#include "abi.h"

#include "../pmi/pmi.h"

/* Another file to load instead of libpmix.so.2. */
#define LIBRARY_VARIABLE "SINGULARITY_SLURM_LIBPMIX"

/* --- library.c --- */

struct library {
#define MEMBER(type, name, arguments) type(*name) arguments;
	ABI_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct library pmix;

/* Load the library. Returns -1 after saying why not. */
int load_library(void);

/* --- layout.c --- */

/* The nodes of the tasks of a step. */
struct layout {
	int size;
	int n_nodes;
	int *node_of;	/* of each rank */
	char **hosts;	/* of each rank */
	int local_rank; /* of this task, among those of its node */
	int local_size;
};

/* Tell the other tasks of the step where this task is, and learn where they are. Returns -1 after saying why not. */
int exchange_layout(struct layout *l, const struct task *t);

/* The nodes as "n1,n2", and the ranks of each as "0,1;2,3". NULL without memory; the caller frees the text. */
char *list_hosts(const struct layout *l);
char *list_ranks(const struct layout *l);

/* The ranks of this task's node as "0,1". */
char *list_peers(const struct layout *l, int rank);

/* --- job.c --- */

/*
 * Start the library's server for a task, and write the variables that the task needs in its environment. Returns -1
 * after saying why not.
 */
int begin_job(const struct task *t, const struct layout *l, const struct abi_module *upcalls);

/* --- link.c --- */

/* An answer of the hub. bytes are valid until the function returns. */
typedef void (*on_answer)(void *data, int status, uint32_t context, const char *bytes, size_t n);

/* Connect to the hub, unless the step has a single task. Returns -1 with errno. */
int reach_hub(const struct task *t);

/*
 * Contribute bytes to a collective. ranks are in ascending order; an empty list stands for all ranks. answer is called
 * once, by serve_hub, unless the function returns -1 because the hub is gone.
 */
int collect(int kind, const char *name, const uint32_t *ranks, size_t n_ranks, const char *bytes, size_t n, on_answer answer,
	void *data);

/* Ask for the keys that a rank has put. answer as for collect. */
int ask_rank(uint32_t rank, on_answer answer, void *data);

/* Answer a question of another rank, which serve_hub passes to on_question. */
void tell_rank(uint32_t asker, uint32_t request, int status, const char *bytes, size_t n);

/* PUBLISH, UNPUBLISH or LOOKUP a name. answer gets the text behind the hub's digit, and STATUS_DONE for a 1. */
int ask_name(enum frame_kind kind, const char *name, const char *value, on_answer answer, void *data);

/* Tell the other tasks to end. This task's program is killed if it does not end by itself. */
void abort_step(void);

/* Wait until an answer has set *done. Only before serve_hub. Returns -1 if the hub is gone. */
int wait_until(const bool *done);

/* Serve until the step ends. on_question asks this task for its keys. */
_Noreturn void serve_hub(void (*on_question)(uint32_t asker, uint32_t request));

/* --- upcalls.c --- */

/* The functions by which the library has this process carry out requests. */
const struct abi_module *upcalls_for(const struct task *t);

/* Another rank asks for the keys of this task. */
void answer_question(uint32_t asker, uint32_t request);

/* Take part in a collective of procs. answer is called once, unless an error is returned. */
abi_status take_part(int kind, const char *name, const struct abi_proc *procs, size_t n_procs, const char *bytes, size_t n,
	on_answer answer, void *data);

/* --- names.c --- */

abi_status publish_names(const struct task *t, const struct abi_info *info, size_t n, abi_op_done done, void *data);

abi_status look_up_names(const struct task *t, char **keys, abi_lookup_done done, void *data);

abi_status unpublish_names(const struct task *t, char **keys, abi_op_done done, void *data);

/* --- group.c --- */

/* The library's upcall. */
abi_status take_part_in_group(int operation, char *name, const struct abi_proc *procs, size_t n_procs,
	const struct abi_info *infos, size_t n_infos, abi_info_done done, void *data);

#endif
