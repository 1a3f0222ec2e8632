// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The absolute path of a file, from the path and the folder's descriptor that a program passes to a call.
 */
#ifndef SING_SHIM_ABSOLUTE_PATH_H
#define SING_SHIM_ABSOLUTE_PATH_H

#include "list.h"

struct buffer;

/* absolute_path is an absolute path. path.at is the caller's own path where that path is absolute. */
struct absolute_path {
	struct span path;
	struct buffer *buffer; /* to give back; NULL if the path is the caller's */
};

/*
 * Find out the absolute path. False if the path is of no interest (not a place where the job
 * keeps files) or cannot be found out, which is then counted as lost. Changes errno. Safe in
 * signal handlers, after fork and vfork. p must be given back in any case.
 */
bool absolute_path_find(struct absolute_path *p, int dirfd, const char *path);

/* The same for the file of an open descriptor. */
bool absolute_path_find_open(struct absolute_path *p, int fd);

void absolute_path_give_back(struct absolute_path *p);

/*
 * The count of moves of the working directory for which p's path is valid; 0 where p's path does not
 * begin with the working directory that the buffer keeps.
 */
uint64_t directory_moves_of(const struct absolute_path *p);

/* The count of moves now. */
uint64_t directory_moves(void);

/* The working directory is changing or has changed. */
void directory_moved(void);

/* Free all buffers in the child of a fork, where the threads that used them do not exist. */
void absolute_path_reset(void);

#endif
