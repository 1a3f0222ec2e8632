// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* How programs that open libraries by themselves come to this library's calls. */
#ifndef SING_DEVICE_LOAD_H
#define SING_DEVICE_LOAD_H

typedef void *finder(void *, const char *);

/* dlsym of the C library. */
finder *sing_next_dlsym(void);

/* The call of nvrtc.c with this name, or NULL. */
void *sing_nvrtc_call(const char *name);

#endif
