// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* From names to functions, for dlsym and cuGetProcAddress. No table needs a relocation. */
#ifndef SING_DEVICE_FIND_H
#define SING_DEVICE_FIND_H

#include <stdbool.h>
#include <stdint.h>

/* The function that has this symbol, or NULL. */
void *sing_find_symbol(const char *symbol);

/*
 * The driver's function of that name in the newest version up to this version; if the caller wants that, the
 * variant for default streams that are per thread, where the function has that variant. *known, if known is
 * not NULL, says whether any version has the name. NULL if no function is found.
 */
void *sing_find(const char *name, int version, bool per_thread, bool *known);

/* A row of the look-up table, sorted by name, then by_thread, then by version. */
struct sing_key {
	uint16_t function; /* index of sing_offsets and sing_symbols */
	uint16_t by_thread;
	uint32_t name; /* where the name begins in sing_names */
	int32_t version;
};

/* Hidden: else the code would reach them by pointers, which the loader has to relocate. */
#pragma GCC visibility push(hidden)
extern const char sing_names[];
extern const uint32_t sing_symbols[]; /* sorted by the symbol: where the symbol begins in sing_names */
extern const int32_t sing_offsets[];  /* where its function is, from the beginning of this table */
extern const struct sing_key sing_keys[];
extern const unsigned sing_symbol_count, sing_key_count;
#pragma GCC visibility pop

#endif
