// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The numbers of a job's devices in CUDA_VISIBLE_DEVICES. */
#ifndef SING_DEVICES_H
#define SING_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Write into out, as a list, the places from 0 on that the items of list have among names:
 * "3" among "2,3" is "1". A name that is among names several times has several places: devices that
 * share a GPU have the GPU's name, so "3" among "2,3,3" is "1,2". Returns false if an item is not
 * among names, or if out is too small.
 */
bool devices_renumber(const char *list, const char *names, char *out, size_t size);

/* Write into out the places of all names, as a list: "0,1,2". Returns false if out is too small. */
bool devices_count(const char *names, char *out, size_t size);

#endif
