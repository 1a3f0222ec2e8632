// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Where the driver reserves addresses. The driver puts a module's variables into a range that it reserves by mmap without an
 * address, and programs may know where a variable is. The kernel's answer depends on earlier mappings by threads, so a
 * restored server would get other addresses. This mmap, which the driver finds in the place of the C library's, gives the
 * driver's reservations addresses by their owner and order alone: after the same calls for an owner, they are the same in each
 * server, independent of calls for other owners.
 *
 * All other calls are the C library's: those with an address, of other libraries, of less than a megabyte.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"

/* Far from all spaces, which lie below, and from the addresses that the kernel chooses, which lie above. */
#define RESERVE_BASE ((uintptr_t)100 << 40)
#define RESERVE_SIZE ((uintptr_t)32 << 30) /* for an owner */
#define RESERVE_PLACES (SING_RESERVE_OWNERS + 1) /* the last is of SING_REHEARSAL */
#define RESERVE_LEAST ((size_t)1 << 20)
#define RESERVE_ALIGN ((uintptr_t)2 << 20)

static _Atomic uintptr_t code_from, code_to; /* of the driver's library */
static _Atomic uintptr_t reserved[RESERVE_PLACES]; /* bytes; owners with numbers that are too far apart share a place */
static _Atomic uint64_t first[RESERVE_PLACES]; /* the owner that has used the place first */
static _Atomic int shared[RESERVE_PLACES]; /* another owner has used the place, too */
static _Thread_local unsigned int owner;

static unsigned int find_place(uint64_t of)
{
	return (of == SING_REHEARSAL ? SING_RESERVE_OWNERS : (unsigned int)(of % SING_RESERVE_OWNERS));
}

void sing_reserve_owner(uint64_t of)
{
	uint64_t none = 0;

	owner = find_place(of);
	if (of != 0 && !atomic_compare_exchange_strong(&first[owner], &none, of) && none != of)
		atomic_store(&shared[owner], 1);
}

int sing_reserve_alone(uint64_t of)
{
	const unsigned int place = find_place(of);

	return (place != 0 && atomic_load(&first[place]) == of && !atomic_load(&shared[place]));
}

uint64_t sing_reserve_base(uint64_t of)
{
	return (RESERVE_BASE + find_place(of) * RESERVE_SIZE);
}

void sing_reserve_leave(uint64_t of)
{
	const unsigned int place = find_place(of);
	uint64_t alone = of;

	if (place == 0 || atomic_load(&shared[place]))
		return;
	if (atomic_compare_exchange_strong(&first[place], &alone, 0))
		atomic_store(&reserved[place], 0);
}

void sing_reserve_again(uint64_t of)
{
	atomic_store(&reserved[find_place(of)], 0);
}

/* The place of a library's code, for which dl_iterate_phdr looks. */
struct code {
	uintptr_t base, from, to;
};

static int find_code(struct dl_phdr_info *info, size_t n, void *of)
{
	struct code *const c = of;

	(void)n;
	if (info->dlpi_addr != c->base)
		return (0);
	for (int i = 0; i < info->dlpi_phnum; ++i) {
		const ElfW(Phdr) *const p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
			c->from = info->dlpi_addr + p->p_vaddr;
			c->to = c->from + p->p_memsz;
		}
	}
	return (1);
}

void sing_reserve_for(void *symbol)
{
	struct code c = { 0 };
	Dl_info info;

	if (dladdr(symbol, &info) == 0)
		return;
	c.base = (uintptr_t)info.dli_fbase;
	(void)dl_iterate_phdr(find_code, &c);
	atomic_store(&code_from, c.from);
	atomic_store(&code_to, c.to);
}

static void *kernel_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	return ((void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset)); /* syscall sets errno and returns MAP_FAILED */
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	const uintptr_t caller = (uintptr_t)__builtin_return_address(0);

	if (at == NULL && fd == -1 && n >= RESERVE_LEAST && caller >= atomic_load(&code_from) && caller < atomic_load(&code_to)) {
		const uintptr_t span = (n + 2 * RESERVE_ALIGN - 1) & ~(RESERVE_ALIGN - 1), used = atomic_fetch_add(&reserved[owner], span);
		const uintptr_t to = RESERVE_BASE + owner * RESERVE_SIZE + used;

		if (used + span <= RESERVE_SIZE) {
			void *const got = kernel_mmap((void *)to, n, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);

			if (got == (void *)to)
				return (got);
			if (got != MAP_FAILED)
				(void)munmap(got, n); /* a kernel that does not know the flag */
		}
	}
	return (kernel_mmap(at, n, prot, flags, fd, offset));
}
