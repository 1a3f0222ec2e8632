// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <sys/mman.h>

#include <unistd.h>

pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int live[KINDS], numbers[KINDS];
static FILE *logged;
static struct { char call[48]; int after; CUresult r; bool said, on; } failure;
static struct { char call[48]; int after; bool reached; } halt;
static pthread_mutex_t halting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resumed = PTHREAD_COND_INITIALIZER;
static size_t memory_size = (size_t)1 << 30;
static int cuda_version = 12040;
static __thread CUcontext mine;

/* A request of tests: the n-th call of this name, from 1 on, is to fail. */
void fake_fail(const char *call, int n, int r)
{
	snprintf(failure.call, sizeof(failure.call), "%s", call);
	failure.after = n;
	failure.r = r;
	failure.said = failure.on = false;
}

/* The calls after that are to fail, too. */
void fake_fail_on(void)
{
	failure.on = true;
}

int fake_failed(void)
{
	return (failure.said);
}

/* The n-th call of this name, from 1 on, is to wait for fake_resume. */
void fake_halt(const char *call, int n)
{
	pthread_mutex_lock(&halting);
	snprintf(halt.call, sizeof(halt.call), "%s", call);
	halt.after = n;
	halt.reached = false;
	pthread_mutex_unlock(&halting);
}

/* Tells whether a call waits. */
int fake_halted(void)
{
	bool yes;

	pthread_mutex_lock(&halting);
	yes = halt.reached;
	pthread_mutex_unlock(&halting);
	return (yes);
}

void fake_resume(void)
{
	pthread_mutex_lock(&halting);
	halt.reached = false;
	pthread_cond_broadcast(&resumed);
	pthread_mutex_unlock(&halting);
}

/* Contexts that end are to keep their addresses until fake_reset. */
static bool keeping;
static void *kept[64];
static size_t kept_places;

void fake_keep(void)
{
	keeping = true;
}

/* The kernels of a module are to be loaded with the module until fake_reset, and not each when it is looked up. */
static bool whole;

void fake_load_whole(void)
{
	whole = true;
}

bool loads_whole(void)
{
	return (whole);
}

/* A log begins, and nothing is to fail or to wait. */
void fake_reset(const char *log, size_t memory)
{
	if (logged)
		fclose(logged);
	logged = log && *log ? fopen(log, "w") : NULL;
	memset(numbers, 0, sizeof(numbers));
	memset(&failure, 0, sizeof(failure));
	fake_resume();
	fake_halt("", 0);
	whole = false;
	for (keeping = false; kept_places > 0;)
		munmap(kept[--kept_places], CONTEXT_SIZE);
	memory_size = memory;
}

/* The version of CUDA that the library says it is of. */
void fake_set_version(int version)
{
	cuda_version = version;
}

static void halt_if_told(const char *call)
{
	pthread_mutex_lock(&halting);
	if (!strcmp(call, halt.call) && --halt.after == 0)
		for (halt.reached = true; halt.reached;)
			pthread_cond_wait(&resumed, &halting);
	pthread_mutex_unlock(&halting);
}

/* How many things are there that must have an end. */
int fake_live(int kind)
{
	return (live[kind]);
}

void *fake_count(void *p, int kind, int n)
{
	__atomic_add_fetch(&live[kind], n, __ATOMIC_SEQ_CST);
	return (p);
}

int fake_number(int kind)
{
	return (__atomic_add_fetch(&numbers[kind], 1, __ATOMIC_SEQ_CST));
}

size_t memory_of_device(void)
{
	return (memory_size);
}

CUcontext current_context(void)
{
	return (mine);
}

/* Calls that have nothing to do with a context: which context the thread has is chance. */
static bool of_process(const char *call)
{
	return (!strcmp(call, "cuInit") || !strncmp(call, "cuDriver", 8) || !strncmp(call, "cuCtxCreate", 11) || !strncmp(call, "cuCtxDestroy", 12) ||
		!strncmp(call, "cuDevice", 8) || !strncmp(call, "cuTensor", 8) || (!strncmp(call, "cuMem", 5) && strchr("ACGMRSU", call[5])));
}

bool fake_enter(const char *call, CUresult *r, const char *form, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool fails = false;
	va_list args;

	halt_if_told(call);
	pthread_mutex_lock(&lock);
	if (!strcmp(call, failure.call) && (--failure.after == 0 || (failure.after < 0 && failure.on))) {
		failure.said = fails = true;
		*r = failure.r;
	}
	if (logged && form) {
		if (mine && !of_process(call))
			fprintf(logged, "context %d: ", mine->id);
		fprintf(logged, "%s", call);
		va_start(args, form);
		vfprintf(logged, form, args);
		va_end(args);
		if (fails)
			fprintf(logged, " = %d", *r);
		fputc('\n', logged);
		fflush(logged);
	}
	pthread_mutex_unlock(&lock);
	return (fails);
}

CUresult cuInit(unsigned int flags)
{
	CALL(" %u", flags);
	return (OK);
}

CUresult cuDriverGetVersion(int *version)
{
	CALL("");
	*version = cuda_version;
	return (OK);
}

CUresult cuDeviceGetCount(int *count)
{
	CALL("");
	*count = DEVICES;
	return (OK);
}

CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
	CALL(" %d", ordinal);
	*dev = ordinal;
	return (ordinal < DEVICES ? OK : INVALID_DEVICE);
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CALL(" %d", dev);
	snprintf(name, len, "Fake GPU %d", dev);
	return (OK);
}

CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice dev)
{
	CALL(" %d", dev);
	memset(id, 0x10 + dev, sizeof(*id));
	return (OK);
}

CUresult cuDeviceGetUuid(CUuuid *id, CUdevice dev)
{
	CALL(" %d", dev);
	memset(id, 0x10 + dev, sizeof(*id));
	return (OK);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CALL(" %d", dev);
	*bytes = memory_size;
	return (OK);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	/* How many a driver of the version knows. */
	const int count = cuda_version < 13000 ? 135 : 148;
	static const int known[148] = {
		[1] = 1024, [2] = 1024, [3] = 1024, [4] = 64, [5] = 2147483647, [6] = 65535, [7] = 65535, [8] = 49152, [9] = 65536,
		[10] = 32, [11] = 2147483647, [12] = 65536, [13] = 1410000, [16] = 108, [19] = 1, [31] = 1, [39] = 2048, [40] = 3,
		[41] = 1, [75] = 8, [78] = 1, [81] = 167936, [82] = 65536, [91] = 1, [95] = 1, [96] = 1, [97] = 166912, [99] = 1,
		[102] = 1, [103] = 1, [106] = 32, [107] = 1, [111] = 1024, [112] = 1, [114] = 1, [115] = 1, [116] = 1, [117] = 1, [118] = 100,
		[119] = 9, [120] = 1, [121] = 1, [124] = 1, [125] = 1, [128] = 1, [129] = 1, [132] = 1, [135] = 1, [136] = 1, [137] = 1 << 20,
		[138] = 1, [141] = 1, [142] = 1, [143] = 1, [144] = 1, [145] = 1, [146] = 1,
	};

	CALL(NULL);
	if (attribute <= 0 || attribute >= count)
		return (INVALID_VALUE);
	*value = attribute == 33 ? dev + 1 : known[attribute];
	return (OK);
}

CUresult cuDeviceCanAccessPeer(int *yes, CUdevice dev, CUdevice peer)
{
	CALL(" %d %d", dev, peer);
	*yes = 1;
	return (OK);
}

static CUcontext new_context(CUdevice dev)
{
	CUcontext c = fake_count(calloc(1, sizeof(*c)), CONTEXTS, 1);

	c->id = fake_number(CONTEXTS);
	c->device = dev;
	c->limits[0] = 1024;
	c->limits[1] = 1 << 20;
	c->limits[2] = 8 << 20;
	c->code = fake_reserve(CONTEXT_SIZE);
	return (c);
}

static void end_context(CUcontext ctx)
{
	end_streams(ctx);
	while (ctx->modules) {
		CUmodule m = ctx->modules;

		ctx->modules = m->next;
		end_module(m);
	}
	fake_count(NULL, EVENTS, -ctx->events);
	fake_count(NULL, EXECS, -ctx->execs);
	fake_count(NULL, CONTEXTS, -1);
	if (keeping && kept_places < sizeof(kept) / sizeof(*kept))
		kept[kept_places++] = ctx->code;
	else
		munmap(ctx->code, CONTEXT_SIZE);
	if (mine == ctx)
		mine = NULL;
	free(ctx);
}

static CUresult create_context(CUcontext *ctx, CUdevice dev)
{
	*ctx = mine = new_context(dev);
	return (OK);
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	CALL(" flags %u, device %d", flags, dev);
	return (create_context(ctx, dev));
}

CUresult cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned int flags, CUdevice dev)
{
	CALL(" flags %u, device %d%s", flags, dev, params ? ", parameters" : "");
	return (create_context(ctx, dev));
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	ENDING(" %d", ctx->id);
	end_context(ctx);
	return (told);
}

/* A device's primary context is the same for all that retain it. */
static struct { CUcontext ctx; int users; } primary[DEVICES];
static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CALL(" device %d", dev);
	pthread_mutex_lock(&primaries);
	if (primary[dev].users++ == 0)
		primary[dev].ctx = new_context(dev);
	*ctx = primary[dev].ctx;
	pthread_mutex_unlock(&primaries);
	return (OK);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	ENDING(" device %d", dev);
	pthread_mutex_lock(&primaries);
	if (--primary[dev].users == 0)
		end_context(primary[dev].ctx);
	pthread_mutex_unlock(&primaries);
	return (told);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	mine = ctx;
	return (OK);
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
	CALL(" %d", limit);
	CONTEXT(c);
	if (limit < 0 || limit > 6)
		return (UNSUPPORTED_LIMIT);
	*value = c->limits[limit];
	return (OK);
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
	CALL(" %d to %zu", limit, value);
	CONTEXT(c);
	if (limit < 0 || limit > 6)
		return (UNSUPPORTED_LIMIT);
	if (limit == 0 && value > 512 << 10)
		return (INVALID_VALUE);
	c->limits[limit] = value;
	return (OK);
}
