// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Calls of the transport and of the hand-written functions, with a test as the device server:
 *
 *	trial WHAT...
 *
 * prints a line for each result. The test answers a message with a number that no call has with the same
 * bytes in reverse order.
 */
#define _GNU_SOURCE
#include "attach.h"
#include "context.h"
#include "find.h"
#include "gen_abi.h"
#include "nccl.h"
#include "transport.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ECHO = 0x1234 };

static CUcontext start_context(void)
{
	CUcontext ctx = NULL;
	const int init = cuInit(0), create = cuCtxCreate_v2(&ctx, 0, 1);

	if (init != 0 || create != 0)
		printf("cuInit %d, cuCtxCreate %d\n", init, create);
	return ctx;
}

/* Print whether a message of n bytes comes back in reverse order. */
static void check_echo(size_t n)
{
	unsigned char *in = calloc(n + 1, 1), *out = calloc(n + 1, 1);
	size_t got = 0, wrong = 0;
	int r;

	for (size_t i = 0; i < n; ++i)
		in[i] = (unsigned char)(i * 7 + i / 251);
	r = sing_call(ECHO, in, n, out, n, &got);
	for (size_t i = 0; i < got && r == 0; ++i)
		wrong += out[i] != in[n - 1 - i];
	printf("echo %zu: %d, %zu bytes, %zu wrong\n", n, r, got, wrong);
	if (n > 0)
		printf("post %zu: %d\n", n, sing_post(ECHO, in, n));
	free(in);
	free(out);
}

static void try_lengths(void)
{
	static const size_t all[] = { 0, 1, 65527, 65528, 65529, 400000, 524000, 524032, 600000, 3 << 20 };

	start_context();
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
		check_echo(all[i]);
}

static void try_cached(void)
{
	unsigned char out[64];
	size_t got = 0;

	start_context();
	for (int i = 0; i < 3; ++i) {
		const int r = sing_cached(ECHO, "abc", 3, out, 8, &got);

		printf("%d %zu %.3s\n", r, got, out);
	}
	printf("%d %.3s\n", sing_cached(ECHO, "abd", 3, out, 8, &got), out);
	cuCtxSetCurrent(NULL);
	printf("%d\n", sing_cached(ECHO, "abc", 3, out, 8, &got));
	for (int i = 0; i < 6000; ++i) {
		char in[16];

		snprintf(in, sizeof(in), "%015d", i);
		if (sing_cached(ECHO, in, 15, out, 15, &got) != 0 || got != 15 || out[14] != in[0] || out[0] != in[14])
			printf("%d: %.15s\n", i, out);
	}
}

static void call_in_child(const char *how)
{
	CUcontext ctx;
	CUdevice dev;
	int value;
	size_t got;

	printf("%s: cuInit %d", how, cuInit(0));
	printf(" get %d pop %d set %d", cuCtxGetCurrent(&ctx), cuCtxPopCurrent_v2(&ctx), cuCtxSetCurrent(NULL));
	printf(" device %d retain %d", cuCtxGetDevice(&dev), cuDevicePrimaryCtxRetain(&ctx, 0));
	printf(" attribute %d count %d", cuDeviceGetAttribute(&value, 1, 0), cuDeviceGetCount(&value));
	printf(" call %d post %d", sing_call(ECHO, "x", 1, &value, 4, &got), sing_post(SING_OP_cuMemsetD8_v2, "x", 1));
	printf(" nccl %d nvml %d\n", ncclGetVersion(&value), nvmlSystemGetCudaDriverVersion(&value));
	fflush(stdout);
}

static void wait_for(pid_t p)
{
	int status = 0;

	waitpid(p, &status, 0);
	if (status != 0)
		printf("the child ended with %#x\n", status);
}

static void try_fork(void)
{
	int value, before, after;
	pid_t p;

	start_context();
	before = cuDeviceGetCount(&value);
	fflush(stdout);
	p = fork();
	if (p == 0) {
		call_in_child("fork");
		_exit(0);
	}
	wait_for(p);
	p = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (p == 0) {
		call_in_child("clone");
		_exit(0);
	}
	wait_for(p);
	after = cuDeviceGetCount(&value);
	printf("parent: %d, %d\n", before, after);
	check_echo(5);
}

/* A process that only looked at NVML may fork and start CUDA in the child. */
static void forked_early(void)
{
	unsigned n = 0;
	pid_t p;

	printf("nvml %d\n", nvmlDeviceGetCount_v2(&n));
	fflush(stdout);
	p = fork();
	if (p == 0) {
		start_context();
		printf("child: attached %d\n", sing_is_attached());
		check_echo(3);
		exit(0);
	}
	wait_for(p);
	start_context();
	check_echo(4);
}

static void print_result(const char *what, int r, CUcontext ctx)
{
	printf("%s %d %#llx\n", what, r, (unsigned long long)(uintptr_t)ctx);
}

/* The call is made first, so that ctx is read after the call. */
#define SAY(what, call, ctx)         \
	do {                         \
		const int r_ = call; \
		print_result(what, r_, ctx);  \
	} while (0)

static void *call_in_thread(void *ctx)
{
	CUdevice dev = -1;
	CUcontext got = NULL;

	SAY("thread: current", cuCtxGetCurrent(&got), got);
	printf("thread: device %d\n", cuCtxGetDevice(&dev));
	SAY("thread: set", cuCtxSetCurrent(ctx), ctx);
	printf("thread: device %d", cuCtxGetDevice(&dev));
	printf(" %d\n", dev);
	printf("thread: destroy %d\n", cuCtxDestroy_v2(ctx));
	SAY("thread: current", cuCtxGetCurrent(&got), got);
	return NULL;
}

static void try_contexts(void)
{
	CUcontext a = NULL, b = NULL, c = NULL, got = NULL;
	CUdevice dev = -1;
	pthread_t t;

	SAY("before cuInit: current", cuCtxGetCurrent(&got), got);
	SAY("before cuInit: create", cuCtxCreate_v2(&a, 0, 0), a);
	printf("before cuInit: post %d\n", sing_post(SING_OP_cuMemsetD8_v2, "", 0));
	printf("init with flags %d, without %d, again %d\n", cuInit(1), cuInit(0), cuInit(0));
	SAY("none current", cuCtxGetCurrent(&got), got);
	SAY("pop of nothing", cuCtxPopCurrent_v2(&got), got);
	printf("device of nothing %d, set to nothing %d\n", cuCtxGetDevice(&dev), cuCtxSetCurrent(NULL));
	printf("post to nothing %d, of NCCL %d\n", sing_post(SING_OP_cuMemsetD8_v2, "", 0), sing_post(SING_OP_nccl_group, "", 0));
	SAY("push of nothing", cuCtxPushCurrent_v2(NULL), NULL);
	SAY("push of nonsense", cuCtxPushCurrent_v2((CUcontext)(uintptr_t)0x10000000005), NULL);
	SAY("create", cuCtxCreate_v2(&a, 0, 0), a);
	SAY("create", cuCtxCreate_v3(&b, NULL, 0, 0, 1), b);
	SAY("create", cuCtxCreate_v4(&c, NULL, 0, 0), c);
	SAY("with affinity", cuCtxCreate_v3(&got, &dev, 1, 0, 1), NULL);
	SAY("current", cuCtxGetCurrent(&got), got);
	for (int i = 0; i < 20; ++i)
		if (cuCtxPushCurrent_v2(b) != 0 || cuCtxGetDevice(&dev) != 0 || dev != 1)
			printf("push %d\n", i);
	for (int i = 0; i < 20; ++i)
		if (cuCtxPopCurrent_v2(&got) != 0 || got != b)
			printf("pop %d\n", i);
	SAY("current", cuCtxGetCurrent(&got), got);
	printf("device of b %d", cuCtxGetDevice_v2(&dev, b));
	printf(" %d\n", dev);
	SAY("set a", cuCtxSetCurrent(a), a);
	SAY("pop", cuCtxPopCurrent_v2(&got), got);
	SAY("pop", cuCtxPopCurrent_v2(&got), got);
	SAY("current", cuCtxGetCurrent(&got), got);
	pthread_create(&t, NULL, call_in_thread, a);
	pthread_join(t, NULL);
	SAY("current", cuCtxGetCurrent(&got), got);
	printf("device %d, post %d, again destroyed %d\n", cuCtxGetDevice(&dev), sing_post(SING_OP_cuMemsetD8_v2, "", 0), cuCtxDestroy_v2(a));
	printf("set to what is destroyed %d, pop %d, destroy b %d and c %d\n", cuCtxSetCurrent(a), cuCtxPopCurrent_v2(NULL),
	       cuCtxDestroy_v2(b), cuCtxDestroy_v2(c));
	SAY("current", cuCtxGetCurrent(&got), got);
}

static void try_primary(void)
{
	CUcontext a = NULL, b = NULL, c = NULL;
	CUdevice dev = -1;

	cuInit(0);
	printf("release %d, of no device %d\n", cuDevicePrimaryCtxRelease_v2(0), cuDevicePrimaryCtxRelease_v2(2));
	SAY("retain", cuDevicePrimaryCtxRetain(&a, 0), a);
	SAY("retain", cuDevicePrimaryCtxRetain(&b, 0), b);
	SAY("retain of no device", cuDevicePrimaryCtxRetain(&c, -1), c);
	printf("set %d, destroy %d, release %d\n", cuCtxSetCurrent(a), cuCtxDestroy_v2(a), cuDevicePrimaryCtxRelease(0));
	printf("device %d", cuCtxGetDevice(&dev));
	printf(", release %d", cuDevicePrimaryCtxRelease_v2(0));
	printf(", device %d\n", cuCtxGetDevice(&dev));
	SAY("retain", cuDevicePrimaryCtxRetain(&c, 0), c);
	printf("reset %d", cuDevicePrimaryCtxReset(0));
	printf(" release %d", cuDevicePrimaryCtxRelease_v2(0));
	printf(" release %d\n", cuDevicePrimaryCtxRelease_v2(0));
}

static void try_attributes(void)
{
	int value = 0, sum = 0;

	printf("before cuInit %d\n", cuDeviceGetAttribute(&value, 1, 0));
	cuInit(0);
	for (int i = 0; i < 100; ++i)
		sum += cuDeviceGetAttribute(&value, 1 + i, i % 2) == 0 ? value : 1000000;
	printf("sum %d; ", sum);
	printf("device 2 %d, attribute 0 %d, one too many %d, NULL %d\n", cuDeviceGetAttribute(&value, 1, 2), cuDeviceGetAttribute(&value, 0, 0),
	       cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), cuDeviceGetAttribute(NULL, 1, 0));
}

static void try_nothing(void)
{
	int version = 0;
	unsigned n = 0;

	printf("cuInit %d %d", cuInit(0), cuInit(0));
	printf(" version %d nccl %d nvml %d\n", cuDriverGetVersion(&version), ncclGetVersion(&version), nvmlDeviceGetCount_v2(&n));
}

static void try_fault(void)
{
	CUcontext got = NULL;
	int version = 0;
	unsigned n = 0;

	start_context();
	check_echo(2); /* the test sets the fault at this call */
	printf("call %d post %d version %d", cuCtxSynchronize(), sing_post(SING_OP_cuMemsetD8_v2, "", 0), cuDriverGetVersion(&version));
	printf(" current %d nccl %d", cuCtxGetCurrent(&got), ncclGetVersion(&version));
	printf(" nvml %d\n", nvmlDeviceGetCount_v2(&n));
}

static void try_closed(void)
{
	int got;

	start_context();
	check_echo(2);
	while ((got = cuCtxSynchronize()) == 0)
		; /* the test closes the ring when the echo comes, which its answer may outrun */
	printf("call %d memset %d\n", got, cuMemsetD8_v2(1, 1, 1));
}

static void try_counted(void)
{
	struct sing_comm *c = sing_comm_enter((ncclComm_t)0x70000000005, true);

	start_context();
	c->ranks = 4;
	atomic_store(&c->state, SING_COMM_READY);
	ncclAllReduce(0, 0, 1, ncclInt32, ncclSum, c->handle, NULL);
	ncclSend(0, 1, ncclInt32, 3, c->handle, NULL);
	ncclGroupStart();
	ncclSend(0, 1, ncclInt32, 3, c->handle, NULL);
	for (int i = 0; i < 2; ++i)
		ncclAllReduce(0, 0, 1, ncclInt32, ncclSum, c->handle, NULL);
	ncclRecv(0, 1, ncclInt32, 3, c->handle, NULL);
	ncclGroupEnd();
	cuCtxSynchronize();
}

static void *attach_thread(void *unused)
{
	size_t got;
	char out[4];

	if (cuInit(0) != 0 || sing_call(ECHO, "abc", 3, out, 4, &got) != 0)
		printf("a thread failed\n");
	return unused;
}

static void try_threads(void)
{
	pthread_t t[16];

	for (int i = 0; i < 16; ++i)
		pthread_create(&t[i], NULL, attach_thread, NULL);
	for (int i = 0; i < 16; ++i)
		pthread_join(t[i], NULL);
}

static void try_missed(void)
{
	start_context();
	for (int i = 0; i < 2; ++i) {
		int (*call)(void) = (int (*)(void))sing_find_symbol("cuMipmappedArrayCreate");

		printf("%d\n", call());
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{ "length", try_lengths }, { "cached", try_cached }, { "forked", try_fork }, { "forked-early", forked_early },
		{ "contexts", try_contexts }, { "primary", try_primary }, { "attributes", try_attributes }, { "nothing", try_nothing },
		{ "fault", try_fault }, { "closed", try_closed }, { "counted", try_counted }, { "threads", try_threads }, { "missed", try_missed },
	};

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (argc == 2 && strcmp(argv[1], "exec") == 0) {
		start_context();
		check_echo(1);
		fflush(stdout);
		execl(argv[0], argv[0], "executed", NULL);
	}
	if (argc == 2 && strcmp(argv[1], "executed") == 0) {
		check_echo(6);
		start_context();
		check_echo(7);
		return 0;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
		if (argc == 2 && strcmp(argv[1], all[i].name) == 0) {
			all[i].run();
			return 0;
		}
	return 2;
}
