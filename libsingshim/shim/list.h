// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The list of a capsule's files: a single shared mapping that all processes of the capsule
 * append to. Package proxyd/files reads the list; record.go there draws the same bytes.
 *
 * A mapping and not a write(2) per record: recording a file costs some tens of
 * nanoseconds instead of a microsecond, no descriptor is seen, closed or leaked by the
 * program, and a change can be recorded before it is made and completed afterwards, so that the
 * change of a process that is frozen in between is not missed.
 */
#ifndef SING_SHIM_LIST_H
#define SING_SHIM_LIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SING_LIST_ENV "SINGULARITY_SLURM_FILES"
#define SING_LIST_MAGIC "SINGLST1"

enum {
	SING_LIST_SIZE = 4 << 20,
	SING_MAX_PATH = 4095,
	SING_RECORD_MARK = 0xA5,
};

struct sing_list {
	char magic[8];
	_Atomic uint64_t epoch; /* a change makes all processes forget what they have recorded */
	_Atomic uint64_t lost;	/* how many changes could not be recorded at all */
	char run[16];
	_Atomic uint32_t shown; /* how many files are in the table of inodes */
	uint32_t first;		/* where records begin: behind the table. 0: an older list, without a table */
	char reserved[16];
	_Atomic uint64_t tail; /* where the next record goes; beyond the end when the list is full */
	char reserved2[56];
};
_Static_assert(offsetof(struct sing_list, epoch) == 8, "layout");
_Static_assert(offsetof(struct sing_list, run) == 24, "layout");
_Static_assert(offsetof(struct sing_list, shown) == 40, "layout");
_Static_assert(offsetof(struct sing_list, first) == 44, "layout");
_Static_assert(offsetof(struct sing_list, tail) == 64, "layout");
_Static_assert(sizeof(struct sing_list) == 128, "layout");

/*
 * A row of the table of inodes, which stands behind the head: the file that is device and inode for the kernel is shown
 * to programs with the inode "shown", which the file had before a restore. proxyd writes rows, and then the new count.
 */
struct sing_shown {
	uint64_t device, inode, shown;
};

enum {
	SING_MAX_SHOWN = 1024,
	SING_FIRST_RECORD = sizeof(struct sing_list) + SING_MAX_SHOWN * sizeof(struct sing_shown),
};
_Static_assert(SING_FIRST_RECORD == 24704, "layout");

enum sing_state {
	SING_RESERVED = 1,
	SING_PENDING = 2,
	SING_DONE = 3,
	SING_FAILED = 4,
};

enum sing_kind {
	SING_CREATED = 'c',
	SING_FOLDER = 'm',
	SING_WRITTEN = 'w',
	SING_APPENDED = 'a', /* number: the file's length before */
	SING_REMOVED = 'd',
	SING_RENAMED = 'r',  /* the other path is the old one */
	SING_REPLACED = 'R', /* renamed over a file that was there */
	SING_EXCHANGED = 'x',
	SING_LINKED = 'l', /* the other path is the path that was there */
	SING_SYMLINKED = 's',
	SING_UNSURE = '?',
};

/* A record, at a multiple of 8. The two paths follow, without NUL, then zeros. */
struct sing_record {
	_Atomic uint32_t head; /* mark, state, kind and a zero byte, from the lowest */
	uint16_t n1, n2;
	uint64_t number;
	char paths[];
};
_Static_assert(sizeof(struct sing_record) == 16, "layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the head is written as one word");

/* Map the list that the environment names. Called once, before main. Leaves errno alone. */
void list_open(char **environment);

/* Whether there is a list. The answer never changes after list_open. */
bool list_is_open(void);

/* The current epoch. Only with an open list. */
uint64_t list_epoch(void);

/* Make all processes forget what they have recorded. */
void list_forget(void);

/* The inode by which programs know the file that is device and inode for the kernel: nearly always inode. */
uint64_t list_shown_inode(uint64_t device, uint64_t inode);

/* A path of n bytes; n is 0 if there is none. */
struct span {
	const char *at;
	size_t n;
};

/*
 * Write down that something is about to happen to path. Returns the record to complete, or
 * NULL: then the record went to the second file, or is counted as lost. Changes errno.
 */
struct sing_record *list_begin(enum sing_kind kind, struct span path, struct span other);

/* Complete a record. A failed record gives its place back if it is still the last. */
void list_done(struct sing_record *r, enum sing_kind kind, uint64_t number);
void list_failed(struct sing_record *r);

/* Count a change that could not be recorded. */
void list_lose(void);

#endif
