// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The parts that all workloads share: options, ranks, their devices and communicators. Ranks are threads of a single
 * process (--ranks 4), processes that it forks (--ranks 4 --processes), or processes that a launcher starts, one each:
 * by RANK and WORLD_SIZE, or by Slurm's srun. In the last case all of them see --id-file, a path that only this run
 * uses, for the communicator's id.
 */
#ifndef RANKS_H
#define RANKS_H

#include <cuda.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"

struct options {
	int ranks;   /* of all processes together */
	int rank;    /* the only rank here, or -1: all */
	int local;   /* the place of that rank on this node */
	bool processes;
	bool own_device; /* each process sees only its own device */
	int steps;
	const char *until; /* a training ends when this file exists, NULL: after its steps */
	uint32_t seed;
	int devices; /* how many are used, 0: all */
	const char *id_file;
	bool gradients; /* compare gradients with differences, and end */
	unsigned extra; /* mlp: so many parameters besides, which no layer uses */
	unsigned accumulate; /* mlp: so many batches are in a step of a rank */
	int every;       /* mlp: results are read after each step of this multiple */
	int zero;        /* mlp: the stage of ZeRO by which the model is divided, see shares.h; 0: not divided */
	bool recompute;  /* gpt: activations are computed again for the gradients */
	bool statistics; /* mlp: each rank keeps running sums of its own activations */
	const char *socket;
	bool marks; /* wait after the step first_mark and after the last, see wait_at_mark */
	int mark_out, mark_in, first_mark;
};

/* A rank. Only the options are shared with other ranks. */
struct rank {
	const struct options *o;
	int rank, ranks;
	CUdevice dev;
	CUcontext ctx;
	CUstream stream; /* the stream of its work, except where another is named */
	CUmodule module;
	CUfunction kernels[KERNELS];
	ncclComm_t world; /* NULL if the rank is alone */
	CUdeviceptr hashes; /* a buffer in which all ranks' hashes are gathered */
};

/* Reads the options, starts the ranks and calls body in each, with its context current. Returns the program's exit status. */
int run_ranks(int argc, char **argv, int steps, void (*body)(struct rank *r));

/* Prints an error, with the rank of this thread, and ends the process. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

void check_driver(CUresult result, const char *call, const char *file, int line);
void check_nccl(ncclResult_t result, const char *call, const char *file, int line);
#define CU(call)   check_driver(call, #call, __FILE__, __LINE__)
#define NCCL(call) check_nccl(nccl.call, #call, __FILE__, __LINE__)

/* NCCL is opened when there is more than a single rank, so that a single rank runs where there is no NCCL. */
#define NCCL_CALLS(X) \
	X(GetUniqueId) X(CommInitRank) X(CommSplit) X(CommDestroy) X(AllReduce) X(AllGather) X(ReduceScatter) X(Send) X(Recv) X(GroupStart) X(GroupEnd) X(GetErrorString)
struct nccl_calls {
#define X(name) __typeof__(nccl##name) *name;
	NCCL_CALLS(X)
#undef X
};
extern struct nccl_calls nccl;

/* The hashes of all ranks in their order, in all; count is that of ranks. */
void gather_hashes(struct rank *r, uint64_t mine, uint64_t *all);

/*
 * Reports whether a training ends with this step: the step was the last, or a rank has found the file of --until. All
 * ranks call the function after each step, and get the same answer: they gather their results, because they look for
 * the file at different moments.
 */
bool is_last_step(struct rank *r, int step);

/*
 * With --marks: reports that this rank has come to the end of the step first_mark or of the last step, with no work left,
 * and waits until it may go on. All ranks call the function after each step, after they have waited for their work of the
 * step.
 */
void wait_at_mark(struct rank *r, int step, bool last);

/* Prints a line for the step, once for all ranks. */
void print_step(struct rank *r, int step, double loss, uint64_t hash);

#endif
