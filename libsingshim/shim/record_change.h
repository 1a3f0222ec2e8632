// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * What an interceptor writes down around the real call:
 *
 *	note_begin   finds out the path, looks whether it is known, and records "about to"
 *	the call     by the next library's function
 *	note_done    completes the record, or note_failed takes it back
 *
 * Each keeps errno: the program sees only what the real call left.
 */
#ifndef SING_SHIM_RECORD_CHANGE_H
#define SING_SHIM_RECORD_CHANGE_H

#include "absolute_path.h"
#include "recorded.h"

struct note {
	bool on; /* there is something to record */
	struct absolute_path path, other;
	struct sing_record *record;
	uint64_t key;
};

/*
 * Whether nothing is to be recorded of an act upon a path, told in a hurry: false where that is not known yet.
 * A program that opens the same file all the time pays no more than that.
 */
bool note_is_known(enum act act, int dirfd, const char *path);

/* Whatever n was, n need not be finished if it is not on. */
void note_begin(struct note *n, enum act act, int dirfd, const char *path);

/*
 * The same with a second path. n->other has no path if there is none that the job could
 * have by name, for instance an open file without a name that is being linked.
 */
void note_begin_pair(struct note *n, enum act act, int dirfd, const char *path, int otherfd, const char *other);

void note_done(struct note *n, enum sing_kind kind, uint64_t number);
void note_failed(struct note *n);

/* What was done was done to another path, which is open as fd: a symbolic link led there. */
void note_done_behind(struct note *n, enum act act, enum sing_kind kind, uint64_t number, int fd);

/* Record at once what has happened already. */
void note_now(enum act act, enum sing_kind kind, int dirfd, const char *path);

#endif
