// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The functions are looked up when they are called first: most processes of a job are short, and
 * call two or three of them. The first call may be in a signal handler, where dlsym is not safe:
 * dlsym locks, and releases memory. So the symbol tables of the libraries behind ours are read
 * here, without a write to memory. dlsym is called only where these tables do not tell.
 */
#define _GNU_SOURCE
#include "next_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The names in a row, and where each begins: an array of pointers would have to be relocated in each process. */
struct names {
#define X(name, result, parameters) char name[sizeof(#name)];
	SING_NEXT(X)
#undef X
};

static const struct names names = {
#define X(name, result, parameters) #name,
	SING_NEXT(X)
#undef X
};

static const uint16_t name_at[] = {
#define X(name, result, parameters) offsetof(struct names, name),
	SING_NEXT(X)
#undef X
};

static void *_Atomic found[NEXT_COUNT];

/* In place of a function that this libc does not have. Every intercepted function returns -1 on failure. */
static int fail_missing(void)
{
	errno = ENOSYS;
	return (-1);
}

/* The tables of a library by which a symbol is found. */
struct tables {
	const ElfW(Sym) *symbols;
	const char *strings;
	const ElfW(Half) *versions; /* NULL: symbols have no versions */
	const uint32_t *hash;
	const char *soname;
};

/* An address in a dynamic section, which the loader has relocated in most libraries, but not where the section is read-only. */
static const void *find_address(const struct link_map *library, const ElfW(Dyn) *d)
{
	const ElfW(Addr) at = d->d_un.d_ptr;

	return ((const void *)(at < library->l_addr ? library->l_addr + at : at));
}

static struct tables read_tables(const struct link_map *library)
{
	struct tables t = { .soname = NULL };
	const ElfW(Dyn) *soname = NULL;

	for (const ElfW(Dyn) *d = library->l_ld; d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			t.symbols = find_address(library, d);
			break;
		case DT_STRTAB:
			t.strings = find_address(library, d);
			break;
		case DT_VERSYM:
			t.versions = find_address(library, d);
			break;
		case DT_GNU_HASH:
			t.hash = find_address(library, d);
			break;
		case DT_SONAME:
			soname = d;
			break;
		}
	if (soname && t.strings)
		t.soname = t.strings + soname->d_un.d_val;

	return (t);
}

static uint32_t hash_name(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;

	return (h);
}

/* A hidden version of a symbol is there for programs that were linked long ago: dlsym skips such versions too. */
static bool is_hidden(const struct tables *t, uint32_t i)
{
	return (t->versions && (t->versions[i] & 0x8000));
}

/* The symbol that a library defines by that name, or NULL. The table is described in binutils' and glibc's sources (DT_GNU_HASH). */
static const ElfW(Sym) *find_symbol(const struct tables *t, const char *name)
{
	const uint32_t h = hash_name(name), buckets = t->hash[0], first = t->hash[1], words = t->hash[2];
	const uint32_t *bucket = t->hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;
	uint32_t i = buckets ? bucket[h % buckets] : 0;

	if (i < first || !i)
		return (NULL);
	for (;; i++) {
		const uint32_t c = chain[i - first];
		const ElfW(Sym) *s = &t->symbols[i];

		if ((c | 1) == (h | 1) && s->st_shndx != SHN_UNDEF && s->st_value && !is_hidden(t, i) &&
		    strcmp(t->strings + s->st_name, name) == 0)
			return (s);
		if (c & 1)
			return (NULL);
	}
}

/* Where the loader's list has our own library. */
static const struct link_map *find_ourselves(void)
{
	const struct link_map *l = _r_debug.r_map;

	while (l && l->l_ld != _DYNAMIC)
		l = l->l_next;

	return (l);
}

/*
 * The function that dlsym(RTLD_NEXT, name) finds, or NULL if only dlsym can tell. The loader's list
 * begins with the libraries that the program started with, in the order of the search, and libc is
 * among them. The search ends at libc: it does not reach a library that was loaded later, and can
 * be unloaded during the search.
 */
static void *find_behind(const char *name)
{
	const struct link_map *l = find_ourselves();

	while (l && (l = l->l_next)) {
		const struct tables t = read_tables(l);
		const ElfW(Sym) *s;

		if (!t.symbols || !t.strings || !t.hash)
			return (NULL);
		s = find_symbol(&t, name);
		if (s) /* a symbol of another type is no function, or must be called to get it (STT_GNU_IFUNC) */
			return ((s->st_info & 0xf) == STT_FUNC ? (char *)l->l_addr + s->st_value : NULL);
		if (t.soname && strcmp(t.soname, "libc.so.6") == 0)
			return (NULL);
	}

	return (NULL);
}

static void *look_up(enum next_name name)
{
	const char *const wanted = (const char *)&names + name_at[name];
	void *f = find_behind(wanted);

	if (f)
		return (f);
	f = dlsym(RTLD_NEXT, wanted);
	/* A program that asks dlerror later must not find our failure there. */
	if (!f)
		dlerror();

	return (f ? f : (void *)fail_missing);
}

void *next_find(enum next_name name)
{
	void *f = atomic_load_explicit(&found[name], memory_order_relaxed);

	if (!f) {
		f = look_up(name);
		atomic_store_explicit(&found[name], f, memory_order_relaxed);
	}

	return (f);
}
