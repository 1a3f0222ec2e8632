// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The acts that this process has recorded lately, so that it does not record them again. */
#ifndef SING_SHIM_RECORDED_H
#define SING_SHIM_RECORDED_H

#include "list.h"

/* The act upon a path or a pair of paths that was recorded. */
enum act {
	ACT_WRITTEN = 1, /* created, or opened for writing */
	ACT_APPENDED,
	ACT_REMOVED,
	ACT_RENAMED,
	ACT_LINKED,
	ACT_SYMLINKED,
	ACT_FOLDER,
};

/* The key of an act upon paths in the current epoch. Never 0. */
uint64_t recorded_key(enum act act, struct span path, struct span other);

bool recorded_has(uint64_t key);
void recorded_add(uint64_t key);
void recorded_drop(uint64_t key);

/*
 * A shorter way to a key, for a path as a program gives it, without the working directory: while moves and the
 * epoch are the same, the same text is the same path. recorded_given returns a number for the text;
 * recorded_note notes the key that belongs to it, and recorded_is_given says whether that key was recorded.
 */
uint64_t recorded_given(enum act act, uint64_t moves, const char *path);
void recorded_note(uint64_t given, uint64_t key);
bool recorded_is_given(uint64_t given);

#endif
