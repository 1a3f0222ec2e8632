// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* How programs that open libraries by dlopen get this library's calls. */
#ifndef SING_DEVICE_LOAD_H
#define SING_DEVICE_LOAD_H

/* The call of nvrtc.c, jitlink.c, or blas.c, with this name, or NULL. */
void *sing_nvrtc_call(const char *name);
void *sing_jitlink_call(const char *name);
void *sing_blas_call(const char *name);

/*
 * Find a function of one of these libraries of CUDA, behind the function of the same name here. library is the
 * beginning of the library's name. NULL if there is no such function; dlerror does not report that failure.
 */
void *sing_find_call(const char *library, const char *symbol);

/* The same, among the libraries that the caller's own library needs. */
void *sing_find_of_caller(const void *caller, const char *symbol);

/* Whether there is a device server, and the process's first device runs PTX alone. */
int sing_is_software(void);

#endif
