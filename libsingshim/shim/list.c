// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "list.h"

#include "pages.h"
#include "raw.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sing_list *_Atomic list;

/*
 * The mapping of the start, with a header that was not checked yet: reading costs a page fault, and most processes
 * record no change.
 */
static struct sing_list *_Atomic unchecked;

/* The second file's path: records go there when the list is full. */
static char more[256];

static const char more_suffix[] = ".more";

static int open_file(const char *path, int flags)
{
	return ((int)raw6(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC | O_NOCTTY, 0, 0, 0));
}

/* The list's path if this variable of the environment has it, else NULL. */
static const char *read_variable(const char *variable)
{
	static const char name[] = SING_LIST_ENV "=/";
	size_t i = 0;

	while (name[i] && variable[i] == name[i])
		i++;

	return (name[i] ? NULL : variable + i - 1);
}

/*
 * Copy the list's path from the environment to "more". Returns its length, 0 if there is no path, or the path is too
 * long.
 */
static size_t copy_path(char **environment)
{
	const char *value = NULL;
	size_t n = 0;

	for (; *environment && !value; environment++)
		value = read_variable(*environment);
	if (!value)
		return (0);
	while (n + sizeof(more_suffix) <= sizeof(more) && (more[n] = value[n]))
		n++;

	return (n + sizeof(more_suffix) <= sizeof(more) ? n : 0);
}

void list_open(char **environment)
{
	const size_t n = copy_path(environment);
	struct stat st;
	long at;
	int fd;

	if (!n)
		return;
	fd = open_file(more, O_RDWR);
	if (fd < 0)
		return;
	/* Beyond the end of a shorter file, each access would be a SIGBUS. */
	if (raw6(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) || st.st_size != SING_LIST_SIZE) {
		raw6(SYS_close, fd, 0, 0, 0, 0, 0);
		return;
	}
	at = raw6(SYS_mmap, 0, SING_LIST_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	raw6(SYS_close, fd, 0, 0, 0, 0, 0);
	if ((unsigned long)at > -4096UL)
		return;
	for (size_t i = 0; i < sizeof(more_suffix); i++)
		more[n + i] = more_suffix[i];
	atomic_store_explicit(&unchecked, (struct sing_list *)at, memory_order_release); /* after "more" */
}

/*
 * A file that is no list stays mapped, and is not read again. Several threads may run this at once, and get the same
 * result.
 */
static bool check_list(struct sing_list *mapped)
{
	if (memcmp(mapped->magic, SING_LIST_MAGIC, sizeof(mapped->magic)) == 0)
		list = mapped;
	atomic_store_explicit(&unchecked, NULL, memory_order_release);

	return (list);
}

bool list_is_open(void)
{
	struct sing_list *mapped;

	if (list)
		return (true);
	mapped = atomic_load_explicit(&unchecked, memory_order_acquire);

	return (mapped ? check_list(mapped) : (bool)list);
}

uint64_t list_epoch(void)
{
	return (atomic_load_explicit(&list->epoch, memory_order_relaxed));
}

void list_forget(void)
{
	atomic_fetch_add_explicit(&list->epoch, 1, memory_order_relaxed);
}

uint64_t list_shown_inode(uint64_t device, uint64_t inode)
{
	const struct sing_shown *rows;
	uint32_t n;

	if (!list_is_open() || list->first != SING_FIRST_RECORD)
		return (inode);
	rows = (const struct sing_shown *)(list + 1);
	n = atomic_load_explicit(&list->shown, memory_order_acquire);
	for (uint32_t i = 0; i < n && i < SING_MAX_SHOWN; i++)
		if (rows[i].device == device && rows[i].inode == inode)
			return (rows[i].shown);

	return (inode);
}

void list_lose(void)
{
	atomic_fetch_add_explicit(&list->lost, 1, memory_order_relaxed);
}

static size_t record_size(size_t n1, size_t n2)
{
	return ((sizeof(struct sing_record) + n1 + n2 + 7) & ~(size_t)7);
}

static uint32_t head_of(enum sing_state state, enum sing_kind kind)
{
	return (SING_RECORD_MARK | (uint32_t)state << 8 | (uint32_t)kind << 16);
}

static void fill_record(struct sing_record *r, struct span path, struct span other)
{
	memcpy(r->paths, path.at, path.n);
	if (other.n)
		memcpy(r->paths + path.n, other.at, other.n);
}

/*
 * Append a record to the second file: the list is full. A record is a single write(2) in append
 * mode, so that records of several processes do not mix; the record names the change before the
 * call, and does not say whether the call succeeded.
 */
static void append_more(enum sing_kind kind, struct span path, struct span other)
{
	static _Atomic bool busy;
	static void *_Atomic memory;
	struct sing_record *r;
	const size_t size = record_size(path.n, other.n);
	long n = -1;
	int fd;

	/* Never wait: a signal handler may have interrupted the owner. */
	if (atomic_exchange_explicit(&busy, true, memory_order_acquire)) {
		list_lose();
		return;
	}
	r = pages_get(&memory, record_size(SING_MAX_PATH, SING_MAX_PATH));
	fd = r ? open_file(more, O_WRONLY | O_APPEND) : -1;
	if (fd >= 0) {
		memset(r->paths, 0, size - sizeof(*r));
		r->n1 = (uint16_t)path.n;
		r->n2 = (uint16_t)other.n;
		r->number = kind == SING_APPENDED ? UINT64_MAX : 0;
		fill_record(r, path, other);
		atomic_store_explicit(&r->head, head_of(SING_DONE, kind), memory_order_relaxed);
		n = raw(SYS_write, fd, (long)r, (long)size, 0);
		raw(SYS_close, fd, 0, 0, 0);
	}
	atomic_store_explicit(&busy, false, memory_order_release);
	if (n != (long)size)
		list_lose();
}

struct sing_record *list_begin(enum sing_kind kind, struct span path, struct span other)
{
	const size_t size = record_size(path.n, other.n);
	struct sing_record *r;
	uint64_t at;

	/* Without this check, a full list's tail would grow with each record. */
	at = atomic_load_explicit(&list->tail, memory_order_relaxed);
	if (at <= SING_LIST_SIZE - size)
		at = atomic_fetch_add_explicit(&list->tail, size, memory_order_relaxed);
	/*
	 * The user can write any number to the tail. The check keeps the program from a SIGSEGV; a wrong number harms
	 * only the user's own list.
	 */
	if (at > SING_LIST_SIZE - size || at < sizeof(*list) || at % 8) {
		append_more(kind, path, other);
		return (NULL);
	}
	r = (struct sing_record *)((char *)list + at);
	r->n1 = (uint16_t)path.n;
	r->n2 = (uint16_t)other.n;
	r->number = 0;
	atomic_store_explicit(&r->head, head_of(SING_RESERVED, kind), memory_order_release);
	fill_record(r, path, other);
	atomic_store_explicit(&r->head, head_of(SING_PENDING, kind), memory_order_release);

	return (r);
}

void list_done(struct sing_record *r, enum sing_kind kind, uint64_t number)
{
	r->number = number;
	atomic_store_explicit(&r->head, head_of(SING_DONE, kind), memory_order_release);
}

void list_failed(struct sing_record *r)
{
	const uint64_t at = (uint64_t)((char *)r - (char *)list);
	const size_t size = record_size(r->n1, r->n2);
	uint64_t end = at + size;

	/*
	 * The record is marked as failed first: once the tail has moved back, the next owner of the
	 * place may write there. The record is not cleared: a reader ignores all bytes behind the
	 * tail.
	 */
	atomic_store_explicit(&r->head, head_of(SING_FAILED, SING_UNSURE), memory_order_release);
	atomic_compare_exchange_strong_explicit(&list->tail, &end, at, memory_order_relaxed, memory_order_relaxed);
}
