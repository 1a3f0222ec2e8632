// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The record that an interceptor makes around the real call:
 *
 *	note_begin   finds out the path, looks whether it is known, and records "about to"
 *	the call     by the next library's function
 *	note_done    completes the record, or note_failed takes it back
 *
 * Each keeps errno: the program sees only the errno of the real call.
 */
#ifndef SING_SHIM_RECORD_CHANGE_H
#define SING_SHIM_RECORD_CHANGE_H

#include "absolute_path.h"
#include "recorded.h"

struct note {
	bool on; /* there is a change to record */
	struct absolute_path path, other;
	struct sing_record *record;
	uint64_t key;
};

/*
 * A quick check whether an act upon a path needs no record: false where that is not known yet. A program that
 * opens the same file all the time pays only for this check.
 */
bool note_is_known(enum act act, int dirfd, const char *path);

/*
 * Begin a record. n may be uninitialised, and needs neither note_done nor note_failed if n->on is false
 * afterwards.
 */
void note_begin(struct note *n, enum act act, int dirfd, const char *path);

/*
 * The same with a second path. n->other has no path if the job does not know the file by a name,
 * for instance an open file without a name that is being linked.
 */
void note_begin_pair(struct note *n, enum act act, int dirfd, const char *path, int otherfd, const char *other);

void note_done(struct note *n, enum sing_kind kind, uint64_t number);
void note_failed(struct note *n);

/*
 * note_done for another path than that of n: the path of the file that is open as fd, to which a symbolic link
 * led.
 */
void note_done_behind(struct note *n, enum act act, enum sing_kind kind, uint64_t number, int fd);

/* Record a change that was made already. */
void note_now(enum act act, enum sing_kind kind, int dirfd, const char *path);

#endif
