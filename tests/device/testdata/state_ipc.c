// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: processes share nothing on real devices

// Two processes take turns at the same memory, in the order of events that they share and without waiting for their devices.
// Of some pairs the memory is of a pool, which a process exports by a descriptor.
// The process that has allocated the memory ends first. The results are printed at the end.
// devices: 2
// limit: 60s

#include "check.h"
#include "messages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char image[] = PTX(
	".visible .entry turn(.param .u64 p, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %t, %b, %d, %v, %k; .reg .u64 %p, %o;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 22695477, %k; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

enum { WORDS = 1 << 16, ROUNDS = 240, LOOK = 40, PAIRS = 3, ALONE = 20 };

struct result {
	unsigned int looks[ROUNDS / LOOK], last;
};

static int has_pool(int pair)
{
	return (pair != 0);
}

static struct result *results;
static CUcontext context;
static CUstream stream;
static CUfunction turn;

static void start_context(int device)
{
	CUmodule module;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, 0, device));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&turn, module, "turn"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void launch_turn(CUdeviceptr p, unsigned int k)
{
	void *params[] = { &p, &k };

	OK(cuLaunchKernel(turn, WORDS / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

static unsigned int hash_words(CUdeviceptr p)
{
	static unsigned int words[WORDS];
	unsigned int h = 2166136261u;

	OK(cuMemcpyDtoHAsync(words, p, sizeof(words), stream));
	OK(cuStreamSynchronize(stream));
	for (int i = 0; i < WORDS; ++i)
		h = (h ^ words[i]) * 16777619u;
	return (h);
}

/* Memory of a pool that the other process may import, and the pool's descriptor. */
static CUdeviceptr allocate_pooled(int device, size_t n, int *fd)
{
	CUmemPoolProps props;
	CUmemoryPool pool;
	CUdeviceptr p;

	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = device;
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, n, pool, stream));
	OK(cuStreamSynchronize(stream)); /* the copy that comes next is not in this stream's order */
	OK(cuMemPoolExportToShareableHandle(fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return (p);
}

/* The memory, an event of its owner, and an event of the other process. */
static void run_owner(int pair, int other)
{
	static unsigned int words[WORDS];
	CUipcMemHandle memory;
	CUmemPoolPtrExportData pooled;
	CUipcEventHandle event;
	CUevent mine, theirs;
	CUdeviceptr p, beside;
	int fd = -1;
	char c = 0;

	start_context(pair % 2);
	OK(cuMemAlloc(&beside, 4096));
	if (has_pool(pair))
		p = allocate_pooled(pair % 2, sizeof(words), &fd);
	else
		OK(cuMemAlloc(&p, sizeof(words)));
	for (int i = 0; i < WORDS; ++i)
		words[i] = (unsigned int)(i * 31 + pair);
	OK(cuMemcpyHtoD(p, words, sizeof(words)));
	OK(cuEventCreate(&mine, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	OK(cuIpcGetEventHandle(&event, mine));
	if (has_pool(pair)) {
		OK(cuMemPoolExportPointer(&pooled, p));
		say_descriptor(other, fd);
		send_bytes(other, &pooled, sizeof(pooled));
	} else {
		OK(cuIpcGetMemHandle(&memory, p));
		send_bytes(other, &memory, sizeof(memory));
	}
	send_bytes(other, &event, sizeof(event));
	receive_bytes(other, &event, sizeof(event));
	OK(cuIpcOpenEventHandle(&theirs, event));
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		OK(cuStreamWaitEvent(stream, theirs, 0));
		launch_turn(p, 2 * round);
		OK(cuEventRecord(mine, stream));
		send_bytes(other, &c, 1);
		receive_bytes(other, &c, 1);
	}
	OK(cuStreamSynchronize(stream));
	exit(0);
}

/* Handles from the other process. */
struct shared {
	CUipcMemHandle memory;
	CUmemPoolPtrExportData pooled;
	CUmemoryPool pool; /* NULL: the share is memory */
	int fd;
};

static CUdeviceptr open_shared(struct shared *s)
{
	CUmemoryPool second;
	CUdeviceptr p;

	if (s->pool == NULL) {
		OK(cuIpcOpenMemHandle(&p, s->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		return (p);
	}
	OK(cuMemPoolImportFromShareableHandle(&second, (void *)(size_t)s->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemPoolDestroy(second));
	OK(cuMemPoolImportPointer(&p, s->pool, &s->pooled));
	return (p);
}

static void close_shared(const struct shared *s, CUdeviceptr p)
{
	if (s->pool == NULL)
		OK(cuIpcCloseMemHandle(p));
	else
		OK(cuMemFreeAsync(p, stream));
}

static void run_borrower(int pair, int other)
{
	struct result *const r = &results[pair];
	struct shared shared = { 0 };
	CUipcEventHandle event;
	CUevent mine, theirs;
	CUdeviceptr p, again;
	char c = 0;

	start_context((pair + 1) / 2 % 2);
	if (has_pool(pair)) {
		shared.fd = hear_descriptor(other);
		receive_bytes(other, &shared.pooled, sizeof(shared.pooled));
		OK(cuMemPoolImportFromShareableHandle(&shared.pool, (void *)(size_t)shared.fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	} else {
		receive_bytes(other, &shared.memory, sizeof(shared.memory));
	}
	p = open_shared(&shared);
	OK(cuEventCreate(&mine, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	OK(cuIpcGetEventHandle(&event, mine));
	send_bytes(other, &event, sizeof(event));
	receive_bytes(other, &event, sizeof(event));
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		receive_bytes(other, &c, 1);
		OK(cuIpcOpenEventHandle(&theirs, event));
		OK(cuStreamWaitEvent(stream, theirs, 0));
		OK(cuEventDestroy(theirs));
		launch_turn(p, 2 * round + 1);
		OK(cuEventRecord(mine, stream));
		if (round % LOOK == LOOK - 1) {
			again = open_shared(&shared);
			HOLDS(again == p);
			r->looks[round / LOOK] = hash_words(p);
			close_shared(&shared, again);
		}
		send_bytes(other, &c, 1);
	}
	HOLDS(read(other, &c, 1) == 0); /* the owner has ended */
	for (unsigned int k = 0; k < ALONE; ++k) {
		launch_turn(p, k);
		if (k % 4 == 0)
			OK(cuStreamSynchronize(stream));
	}
	r->last = hash_words(p);
	close_shared(&shared, p);
	exit(0);
}

int main(void)
{
	int status;

	results = mmap(NULL, PAIRS * sizeof(*results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	HOLDS(results != MAP_FAILED);
	for (int pair = 0; pair < PAIRS; ++pair) {
		int ends[2];

		HOLDS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
		for (int i = 0; i < 2; ++i) {
			if (fork() == 0) {
				close(ends[1 - i]);
				(i == 0 ? run_owner : run_borrower)(pair, ends[i]);
			}
		}
		close(ends[0]);
		close(ends[1]);
	}
	for (int i = 0; i < 2 * PAIRS; ++i) {
		HOLDS(wait(&status) > 0);
		HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	for (int pair = 0; pair < PAIRS; ++pair) {
		for (int i = 0; i < ROUNDS / LOOK; ++i)
			printf("%08x ", results[pair].looks[i]);
		printf("%08x\n", results[pair].last);
	}
	return (0);
}
