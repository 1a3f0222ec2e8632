// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* From what a program passes to a call to an absolute path. */
#ifndef SING_SHIM_ABSOLUTE_PATH_H
#define SING_SHIM_ABSOLUTE_PATH_H

#include "list.h"

struct buffer;

/* place is an absolute path. at is the caller's path itself where that is absolute. */
struct absolute_path {
	struct span path;
	struct buffer *buffer; /* to give back; NULL without */
};

/*
 * Find out the absolute path. False if the path is of no interest (not a place where the job
 * keeps files) or cannot be found out, which is then counted as lost. Changes errno. Safe in
 * signal handlers, after fork and vfork. p must be given back in any case.
 */
bool absolute_path_find(struct absolute_path *p, int dirfd, const char *path);

/* The same of an open descriptor. */
bool absolute_path_find_open(struct absolute_path *p, int fd);

void absolute_path_give_back(struct absolute_path *p);

/*
 * How often the working directory has moved, as far as p's path says so for certain; 0 where p's path was
 * not put together from the directory that the process remembers.
 */
uint64_t directory_moves_of(const struct absolute_path *p);

/* The same now. */
uint64_t directory_moves(void);

/* The working directory is changing or has changed. */
void directory_moved(void);

/* In the child of a fork: there is no other thread. */
void absolute_path_reset(void);

#endif
