// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Calltrace is loaded by LD_PRELOAD before everything else, and writes each call of a program to CUDA's driver to the file that
 * the variable CALLTRACE names: the thread, the call, its first six arguments, its result, eight bytes from where each of the
 * first three arguments points to after the call, and how many microseconds the call took. The same program natively and by `proxyd run` gives two files, and the first
 * call that differs is answered by our shim otherwise than by the driver.
 *
 * Calls are seen that are found by dlsym, cuGetProcAddress or in tables of cuGetExportTable; those are all that libcudart
 * and the vendor's libraries make. Two tables are left as they are, because both sides check where these tables lie.
 * x86-64 only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct call {
	void *real;
	char name[72];
};

/* The calls of a thread that are under way: where each call returns to. */
struct frame {
	struct call *call;
	void *back;
	uint64_t args[6];
	struct timespec began;
};
enum { DEPTH = 64, CALLS = 8192, STUB = 32, TABLES = 32, TABLE_MOST = 256 };
static _Thread_local struct frame frames[DEPTH];
static _Thread_local unsigned int depth;

static struct call calls[CALLS];
static unsigned int known;
static unsigned char *stubs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;

/* Enter at stub n: r11 has the call. The return address is exchanged, so that arguments on the stack stay in place. */
__asm__(".text\n"
	".globl calltrace_enter\n"
	".hidden calltrace_enter\n"
	"calltrace_enter:\n"
	"	push %rdi\n	push %rsi\n	push %rdx\n	push %rcx\n	push %r8\n	push %r9\n	push %rax\n"
	"	mov %r11, %rdi\n"
	"	mov %rsp, %rsi\n"
	"	call calltrace_begin\n"
	"	mov %rax, %r11\n"
	"	pop %rax\n	pop %r9\n	pop %r8\n	pop %rcx\n	pop %rdx\n	pop %rsi\n	pop %rdi\n"
	"	lea calltrace_exit(%rip), %r10\n"
	"	mov %r10, (%rsp)\n"
	"	jmp *%r11\n"
	"calltrace_exit:\n"
	"	sub $8, %rsp\n"
	"	push %rax\n	push %rdx\n"
	"	sub $8, %rsp\n"
	"	mov %rax, %rdi\n"
	"	call calltrace_end\n"
	"	add $8, %rsp\n"
	"	mov %rax, 16(%rsp)\n"
	"	pop %rdx\n	pop %rax\n"
	"	ret\n");
extern char calltrace_enter[];

void *calltrace_begin(struct call *c, const uint64_t *saved);
void *calltrace_end(uint64_t result);

/* saved has rax, r9, r8, rcx, rdx, rsi, rdi and the return address. */
__attribute__((visibility("hidden"))) void *calltrace_begin(struct call *c, const uint64_t *saved)
{
	struct frame *const f = &frames[depth++ % DEPTH];

	f->call = c;
	f->back = (void *)saved[7];
	for (int i = 0; i < 6; ++i)
		f->args[i] = saved[6 - i];
	clock_gettime(CLOCK_MONOTONIC, &f->began);
	return (c->real);
}

/* Eight bytes of this process, or a dash where there is no memory. */
static void peek_memory(uint64_t at, char *to, size_t room)
{
	uint64_t value;
	struct iovec local = { &value, sizeof(value) }, remote = { (void *)at, sizeof(value) };

	if (at < 4096 || process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != sizeof(value))
		snprintf(to, room, "-");
	else
		snprintf(to, room, "%llx", (unsigned long long)value);
}

__attribute__((visibility("hidden"))) void *calltrace_end(uint64_t result)
{
	struct frame *const f = &frames[--depth % DEPTH];
	char line[512], seen[3][20];
	struct timespec now;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (int i = 0; i < 3; ++i)
		peek_memory(f->args[i], seen[i], sizeof(seen[i]));
	n = snprintf(line, sizeof(line), "%d %*s%s(%llx, %llx, %llx, %llx, %llx, %llx) = %d [%s %s %s] %.1f\n", (int)syscall(SYS_gettid), (int)depth, "",
		     f->call->name, (unsigned long long)f->args[0], (unsigned long long)f->args[1], (unsigned long long)f->args[2],
		     (unsigned long long)f->args[3], (unsigned long long)f->args[4], (unsigned long long)f->args[5], (int)result, seen[0], seen[1],
		     seen[2], 1e6 * (double)(now.tv_sec - f->began.tv_sec) + 1e-3 * (double)(now.tv_nsec - f->began.tv_nsec));
	if (write(out, line, (size_t)n) < 0)
		out = -1;
	return (f->back);
}

/* A function that notes a call and makes the call. The same function and name get the same stub. */
static void *wrap_call(const char *name, void *real)
{
	unsigned char *stub = NULL;

	if (real == NULL || out < 0)
		return (real);
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < known && stub == NULL; ++i)
		if (real == (void *)(stubs + (size_t)i * STUB) || (calls[i].real == real && strcmp(calls[i].name, name) == 0))
			stub = stubs + (size_t)i * STUB;
	if (stub == NULL && known < CALLS) {
		struct call *const c = &calls[known];
		void *const enter = calltrace_enter;

		stub = stubs + (size_t)known++ * STUB;
		c->real = real;
		snprintf(c->name, sizeof(c->name), "%s", name);
		memcpy(stub, "\x49\xbb", 2), memcpy(stub + 2, &c, 8);	    /* mov $c, %r11 */
		memcpy(stub + 10, "\x48\xb8", 2), memcpy(stub + 12, &enter, 8); /* mov $enter, %rax */
		memcpy(stub + 20, "\xff\xe0", 2);			    /* jmp *%rax */
	}
	pthread_mutex_unlock(&lock);
	return (stub != NULL ? stub : real);
}

static int (*find1)(const char *, void **, int, uint64_t), (*find2)(const char *, void **, int, uint64_t, int *);
static int (*table)(const void **, const unsigned char *);

static int my_find1(const char *name, void **function, int version, uint64_t flags);
static int my_find2(const char *name, void **function, int version, uint64_t flags, int *status);
static int my_table(const void **to, const unsigned char *id);

static void *replace_call(const char *name, void *real)
{
	if (real == NULL)
		return (NULL);
	if (strcmp(name, "cuGetProcAddress") == 0) {
		find1 = find1 != NULL ? find1 : real;
		return ((void *)my_find1);
	}
	if (strcmp(name, "cuGetProcAddress_v2") == 0) {
		find2 = find2 != NULL ? find2 : real;
		return ((void *)my_find2);
	}
	if (strcmp(name, "cuGetExportTable") == 0) {
		table = table != NULL ? table : real;
		return ((void *)my_table);
	}
	return (wrap_call(name, real));
}

static void note_call(const char *what, const char *name, int result)
{
	char line[256];
	const int n = snprintf(line, sizeof(line), "%s %s = %d\n", what, name, result);

	if (out >= 0 && write(out, line, (size_t)n) < 0)
		out = -1;
}

static void hand_out(const char *name, int version, void **function)
{
	char full[96];

	if (strcmp(name, "cuGetProcAddress") == 0) {
		*function = replace_call(version >= 12000 ? "cuGetProcAddress_v2" : name, *function);
		return;
	}
	if (strcmp(name, "cuGetExportTable") == 0) {
		*function = replace_call(name, *function);
		return;
	}
	snprintf(full, sizeof(full), "%s@%d", name, version);
	*function = wrap_call(full, *function);
}

static int my_find1(const char *name, void **function, int version, uint64_t flags)
{
	const int r = find1(name, function, version, flags);

	if (r != 0)
		note_call("not found:", name, r);
	else if (function != NULL && *function != NULL)
		hand_out(name, version, function);
	return (r);
}

static int my_find2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	const int r = find2(name, function, version, flags, status);

	if (r != 0 || function == NULL || *function == NULL)
		note_call("not found:", name, status != NULL ? 1000 * *status + r : r);
	else
		hand_out(name, version, function);
	return (r);
}

static int my_table(const void **to, const unsigned char *id)
{
	static struct {
		unsigned char id[16];
		void *copy[TABLE_MOST];
	} tables[TABLES];
	static unsigned int n;
	char name[40], full[72];
	const int r = table(to, id);
	void *const *real = (void *const *)*to;
	size_t entries;

	for (int i = 0; i < 16; ++i)
		snprintf(name + 2 * i, 3, "%02x", id[i]);
	note_call("table", name, r);
	if (r != 0 || real == NULL || strncmp(name, "6bd5fb6c", 8) == 0 || strncmp(name, "d4082055", 8) == 0)
		return (r);
	entries = (size_t)real[0] / sizeof(void *);
	if (entries == 0 || entries > TABLE_MOST)
		entries = 4; /* this table has no size */
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < n; ++i)
		if (memcmp(tables[i].id, id, 16) == 0) {
			*to = tables[i].copy;
			pthread_mutex_unlock(&lock);
			return (r);
		}
	if (n == TABLES) {
		pthread_mutex_unlock(&lock);
		return (r);
	}
	memcpy(tables[n].id, id, 16);
	*to = tables[n].copy;
	void **const copy = tables[n++].copy;
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < entries; ++i) {
		copy[i] = real[i];
		snprintf(full, sizeof(full), "table %.8s[%zu]", name, i);
		if ((uintptr_t)real[i] > 65536)
			copy[i] = wrap_call(full, real[i]);
	}
	return (r);
}

static void *(*next_dlsym)(void *, const char *);

__attribute__((constructor)) static void start_trace(void)
{
	const char *path = getenv("CALLTRACE");

	next_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (next_dlsym == NULL)
		next_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	stubs = mmap(NULL, (size_t)CALLS * STUB, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (path == NULL || out >= 0)
		return;
	if (stubs != MAP_FAILED && next_dlsym != NULL)
		out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (out < 0)
		fprintf(stderr, "calltrace: %s cannot be written: nothing is noted\n", path);
}

__attribute__((destructor)) static void finish_trace(void)
{
	if (out >= 0 && known == 0)
		fprintf(stderr, "calltrace: this process has found no call of the driver by dlsym or cuGetProcAddress\n");
}

static void *find_call(void *handle, const char *name)
{
	return (replace_call(name, next_dlsym(handle, name)));
}

/* Where dlsym goes on: for a name that is no call of the driver, at the next dlsym, which looks at its caller. */
__attribute__((used)) static void *dlsym_way(void *handle, const char *name)
{
	if (next_dlsym == NULL)
		start_trace();
	if (handle == RTLD_NEXT || name == NULL || strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z')
		return ((void *)next_dlsym);
	return ((void *)find_call);
}

__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	push %rdi\n	push %rsi\n	sub $8, %rsp\n"
	"	call dlsym_way\n"
	"	add $8, %rsp\n	pop %rsi\n	pop %rdi\n"
	"	jmp *%rax\n");
