// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "ranks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

struct nccl_calls nccl;

extern const char kernels_ptx[];

static _Thread_local int my_rank;

void fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "rank %d: ", my_rank);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	/* Other ranks may be threads that wait for this rank, so exit handlers and joins could hang. */
	_exit(1);
}

void check_driver(CUresult result, const char *call, const char *file, int line)
{
	const char *name = "an unknown result", *text = "";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	cuGetErrorString(result, &text);
	fail("%s:%d: %s: %s (%s)", file, line, call, name, text);
}

void check_nccl(ncclResult_t result, const char *call, const char *file, int line)
{
	if (result != ncclSuccess)
		fail("%s:%d: nccl%s: %s", file, line, call, nccl.GetErrorString(result));
}

static void open_nccl(void)
{
	void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);

	if (lib == NULL)
		fail("%s", dlerror());
#define X(name)                                                   \
	nccl.name = (__typeof__(nccl.name))dlsym(lib, "nccl" #name); \
	if (nccl.name == NULL)                                       \
		fail("%s", dlerror());
	NCCL_CALLS(X)
#undef X
}

/* Writes the id to a file for the other ranks; the file appears only when it is complete. */
static void write_id(const char *path, const ncclUniqueId *id)
{
	char tmp[4096];
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.new", path);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, id, sizeof(*id)) != sizeof(*id) || close(fd) != 0 || rename(tmp, path) != 0)
		fail("%s: %m", path);
}

static void read_id(const char *path, ncclUniqueId *id)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
	int fd;

	for (int i = 0; (fd = open(path, O_RDONLY)) < 0; ++i) {
		if (i == 12000)
			fail("%s: nobody wrote it within two minutes", path);
		nanosleep(&pause, NULL);
	}
	if (read(fd, id, sizeof(*id)) != sizeof(*id))
		fail("%s: it is not whole", path);
	close(fd);
}

/* The state that the ranks of a single process share. */
struct here {
	const struct options *o;
	void (*body)(struct rank *r);
	ncclUniqueId id;
	bool has_id;
};

/* Runs a rank from its start to its end. */
static void be_rank(struct here *h, int number, int local)
{
	static const char *const names[KERNELS] = {
#define X(name) #name,
		KERNEL_NAMES(X)
#undef X
	};
	struct rank r = { .o = h->o, .rank = number, .ranks = h->o->ranks };
	int devices;

	my_rank = number;
	CU(cuInit(0));
	CU(cuDeviceGetCount(&devices));
	if (h->o->devices > devices)
		fail("there are %d devices", devices);
	if (h->o->devices > 0)
		devices = h->o->devices;
	CU(cuDeviceGet(&r.dev, local % devices));
	CU(cuDevicePrimaryCtxRetain(&r.ctx, r.dev));
	CU(cuCtxSetCurrent(r.ctx));
	CU(cuStreamCreate(&r.stream, CU_STREAM_NON_BLOCKING));
	CU(cuModuleLoadData(&r.module, kernels_ptx));
	for (int i = 0; i < KERNELS; ++i)
		CU(cuModuleGetFunction(&r.kernels[i], r.module, names[i]));
	if (r.ranks > 1) {
		if (!h->has_id && number == 0) {
			NCCL(GetUniqueId(&h->id));
			write_id(h->o->id_file, &h->id);
		} else if (!h->has_id) {
			read_id(h->o->id_file, &h->id);
		}
		NCCL(CommInitRank(&r.world, r.ranks, h->id, number));
		/* All ranks have read the id by now. */
		if (!h->has_id && number == 0)
			unlink(h->o->id_file);
	}
	/*
	 * Allocated once, not for each step: cuMemFree waits for all work of the device, also for work of another rank,
	 * which may wait for this rank's.
	 */
	CU(cuMemAlloc(&r.hashes, sizeof(uint64_t) * (size_t)r.ranks));
	h->body(&r);
	CU(cuStreamSynchronize(r.stream));
	if (r.world != NULL)
		NCCL(CommDestroy(r.world));
	CU(cuModuleUnload(r.module));
	CU(cuStreamDestroy(r.stream));
	CU(cuDevicePrimaryCtxRelease(r.dev));
}

struct thread {
	struct here *here;
	int rank;
	pthread_t id;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	be_rank(t->here, t->rank, t->rank);
	return (NULL);
}

static int run_threads(struct here *h)
{
	struct thread *all = calloc((size_t)h->o->ranks, sizeof(*all));

	if (h->o->ranks > 1)
		NCCL(GetUniqueId(&h->id));
	h->has_id = true;
	for (int i = 0; i < h->o->ranks; ++i) {
		all[i] = (struct thread){ .here = h, .rank = i };
		if (i > 0 && pthread_create(&all[i].id, NULL, thread_main, &all[i]) != 0)
			fail("cannot start a thread");
	}
	thread_main(&all[0]);
	for (int i = 1; i < h->o->ranks; ++i)
		pthread_join(all[i].id, NULL);
	free(all);
	return (0);
}

/* No call of the driver may come before a fork: a child cannot use what its parent has begun. */
static int run_processes(struct here *h, struct options *o)
{
	char dir[] = "/tmp/workload.XXXXXX", path[64], device[16];
	int failed = 0, status;

	if (o->id_file == NULL) {
		if (mkdtemp(dir) == NULL)
			fail("%s: %m", dir);
		snprintf(path, sizeof(path), "%s/id", dir);
		o->id_file = path;
	}
	for (int i = 0; i < o->ranks; ++i) {
		switch (fork()) {
		case -1:
			fail("fork: %m");
		case 0:
			snprintf(device, sizeof(device), "%d", i);
			if (o->own_device && setenv("CUDA_VISIBLE_DEVICES", device, 1) != 0)
				fail("setenv: %m");
			be_rank(h, i, o->own_device ? 0 : i);
			fflush(NULL);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	if (o->id_file == path)
		rmdir(dir);
	return (failed);
}

int run_ranks(int argc, char **argv, int steps, void (*body)(struct rank *r))
{
	struct options o = { .ranks = 1, .rank = -1, .steps = steps, .seed = 1, .accumulate = 1, .every = 1 };
	struct here h = { .o = &o, .body = body };
	int rv;

	rv = read_options(&o, argc, argv);
	if (rv >= 0)
		return (rv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (o.ranks > 1)
		open_nccl();
	if (o.rank >= 0) {
		be_rank(&h, o.rank, o.local);
		return (0);
	}
	return (o.processes ? run_processes(&h, &o) : run_threads(&h));
}

void gather_hashes(struct rank *r, uint64_t mine, uint64_t *all)
{
	size_t n = sizeof(mine) * (size_t)r->ranks;
	CUdeviceptr buffer = r->hashes;

	if (r->world == NULL) {
		all[0] = mine;
		return;
	}
	CU(cuMemcpyHtoDAsync(buffer + sizeof(mine) * (unsigned)r->rank, &mine, sizeof(mine), r->stream));
	NCCL(AllGather((void *)(buffer + sizeof(mine) * (unsigned)r->rank), (void *)buffer, 1, ncclUint64, r->world, r->stream));
	CU(cuMemcpyDtoHAsync(all, buffer, n, r->stream));
	CU(cuStreamSynchronize(r->stream));
}

bool is_last_step(struct rank *r, int step)
{
	uint64_t found[r->ranks];
	bool last = false;

	if (r->o->steps > 0 && step >= r->o->steps)
		return (true);
	if (r->o->until == NULL)
		return (false);
	gather_hashes(r, access(r->o->until, F_OK) == 0, found);
	for (int i = 0; i < r->ranks; ++i)
		last = last || found[i] != 0;
	return (last);
}

void wait_at_mark(struct rank *r, int step, bool last)
{
	char byte = 0;

	if (!r->o->marks || (step != r->o->first_mark && !last))
		return;
	CU(cuStreamSynchronize(r->stream));
	if (write(r->o->mark_out, &byte, 1) != 1 || read(r->o->mark_in, &byte, 1) != 1)
		fail("the mark after step %d: %m", step);
}

void print_step(struct rank *r, int step, double loss, uint64_t hash)
{
	if (r->rank == 0)
		printf("step %d loss %.6f hash %016llx\n", step, loss, (unsigned long long)hash);
}
