// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

static const char usage[] =
	"usage: %s [OPTION...]\n"
	"  --steps N       how many steps, 0: until the end of time\n"
	"  --until PATH    end before that, after the first step whose end finds PATH there (mlp, gpt)\n"
	"  --seed N        of parameters and data\n"
	"  --ranks N       how many ranks; those that RANK or SLURM_PROCID do not name are threads of this process\n"
	"  --processes     they are processes instead\n"
	"  --own-device    they are processes, and each sees only its own device, as under srun --gpus-per-task\n"
	"  --rank N        be only this one, as RANK with WORLD_SIZE, or SLURM_PROCID with SLURM_NTASKS, says, too\n"
	"  --id-file PATH  where ranks that are started one by one find each other\n"
	"  --devices N     how many devices are used, 0: all\n"
	"  --extra N       mlp: so many parameters besides, which no layer uses, for a model that takes much memory\n"
	"  --accumulate N  mlp: add up the gradients of so many batches before the ranks meet, in each step\n"
	"  --every N       mlp: read a result only after each Nth step, and queue the work of the others, without --zero\n"
	"  --zero N        mlp: divide over the ranks the optimizer's means (1), or parameters and gradients, too (3, as FSDP does)\n"
	"  --recompute     gpt: free what a block computes, and compute all that again for its gradients\n"
	"  --statistics    mlp: keep running sums of each rank's own activations, as batch normalisation does\n"
	"  --gradients     compare gradients with differences, and end\n"
	"  --marks OUT,IN,N\n"
	"                  after step N and after the last step, each rank of mlp, gpt, grid and streams writes a byte to descriptor\n"
	"                  OUT and waits for a byte from IN: meanwhile the ranks do nothing, so what they did can be counted\n"
	"  --socket PATH   serve: answer there, not on stdin\n";

/* Returns the number in a variable of the environment, or -1. */
static int from_env(const char *name)
{
	const char *s = getenv(name);

	return (s != NULL && *s != '\0' ? atoi(s) : -1);
}

/*
 * Reads the rank of this process, if srun or a launcher like torchrun has
 * started it.
 */
static void read_environment(struct options *o)
{
	static char path[256];
	const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");

	if (from_env("RANK") >= 0 && from_env("WORLD_SIZE") > 0) {
		o->rank = from_env("RANK");
		o->ranks = from_env("WORLD_SIZE");
		o->local = from_env("LOCAL_RANK");
	} else if (from_env("SLURM_PROCID") >= 0 && from_env("SLURM_NTASKS") > 1) {
		o->rank = from_env("SLURM_PROCID");
		o->ranks = from_env("SLURM_NTASKS");
		o->local = from_env("SLURM_LOCALID");
	}
	if (o->local < 0)
		o->local = o->rank;
	o->id_file = getenv("WORKLOAD_ID_FILE");
	if (o->id_file == NULL && job != NULL && step != NULL) {
		snprintf(path, sizeof(path), "workload-id.%s.%s", job, step);
		o->id_file = path;
	}
}

int read_options(struct options *o, int argc, char **argv)
{
	enum { STEPS = 1, UNTIL, SEED, RANKS, PROCESSES, RANK, ID_FILE, DEVICES, GRADIENTS, EXTRA, STATISTICS, ACCUMULATE, EVERY, ZERO, RECOMPUTE, MARKS, SOCKET, OWN_DEVICE, HELP };
	static const struct option list[] = {
		{ "steps", required_argument, NULL, STEPS },     { "until", required_argument, NULL, UNTIL },
		{ "seed", required_argument, NULL, SEED },
		{ "ranks", required_argument, NULL, RANKS },     { "processes", no_argument, NULL, PROCESSES },
		{ "rank", required_argument, NULL, RANK },       { "id-file", required_argument, NULL, ID_FILE },
		{ "devices", required_argument, NULL, DEVICES }, { "gradients", no_argument, NULL, GRADIENTS },
		{ "extra", required_argument, NULL, EXTRA },     { "statistics", no_argument, NULL, STATISTICS },
		{ "accumulate", required_argument, NULL, ACCUMULATE },
		{ "every", required_argument, NULL, EVERY },
		{ "zero", required_argument, NULL, ZERO },       { "recompute", no_argument, NULL, RECOMPUTE },
		{ "marks", required_argument, NULL, MARKS },
		{ "socket", required_argument, NULL, SOCKET },   { "own-device", no_argument, NULL, OWN_DEVICE },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	int c;

	read_environment(o);
	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (c) {
		case STEPS:
			o->steps = atoi(optarg);
			break;
		case UNTIL:
			o->until = optarg;
			break;
		case SEED:
			o->seed = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case RANKS:
			o->ranks = atoi(optarg);
			break;
		case PROCESSES:
			o->processes = true;
			break;
		case OWN_DEVICE:
			o->processes = o->own_device = true;
			break;
		case RANK:
			o->rank = o->local = atoi(optarg);
			break;
		case ID_FILE:
			o->id_file = optarg;
			break;
		case DEVICES:
			o->devices = atoi(optarg);
			break;
		case GRADIENTS:
			o->gradients = true;
			break;
		case EXTRA:
			o->extra = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case STATISTICS:
			o->statistics = true;
			break;
		case ACCUMULATE:
			o->accumulate = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case EVERY:
			o->every = atoi(optarg);
			break;
		case ZERO:
			o->zero = atoi(optarg);
			break;
		case RECOMPUTE:
			o->recompute = true;
			break;
		case MARKS:
			if (sscanf(optarg, "%d,%d,%d", &o->mark_out, &o->mark_in, &o->first_mark) != 3)
				fail("--marks %s: want two descriptors and a step, as 3,4,1", optarg);
			o->marks = true;
			break;
		case SOCKET:
			o->socket = optarg;
			break;
		case HELP:
			printf(usage, argv[0]);
			return (0);
		default:
			fprintf(stderr, usage, argv[0]);
			return (2);
		}
	}
	if (optind < argc || o->ranks < 1 || o->rank >= o->ranks || o->accumulate < 1 ||
	    o->every < 1 || (o->every > 1 && o->zero != 0)) {
		fprintf(stderr, usage, argv[0]);
		return (2);
	}
	if (o->zero != 0 && ((o->zero != 1 && o->zero != 3) || o->ranks < 2 || (o->zero == 3 && o->accumulate > 1))) {
		fprintf(stderr, "%s: --zero is 1 or 3, for several ranks, and 3 adds up no batches\n", argv[0]);
		return (2);
	}
	if (o->rank >= 0 && o->ranks > 1 && o->id_file == NULL) {
		fprintf(stderr, "%s: rank %d of %d needs --id-file\n", argv[0], o->rank, o->ranks);
		return (2);
	}
	return (-1);
}
