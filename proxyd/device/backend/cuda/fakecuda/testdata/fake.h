// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A libcuda.so.1 for tests: the calls that the backend makes, over memory of this process. Addresses are real: memory
 * is mapped there, so copies copy. A stream is a thread. Kernels are those of the backends' suite, written in C.
 */
#ifndef FAKE_H
#define FAKE_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen_driver.h"

enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY = 209,
	UNSUPPORTED_LIMIT = 215, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
	ASSERT_FAILED = 710, MISALIGNED = 716, LAUNCH_FAILED = 719, CTX_DESTROYED = 709,
};

/* The addresses that a context reserves, as a real context does: see reserve.c. */
enum { CONTEXT_SIZE = 4 << 20 };
void *fake_reserve(size_t n);

enum { DEVICES = 2, MODULE_NAMES = 64, MAX_PARAMS = 16 };

/* Everything below is under this lock; changed says that something was done. */
extern pthread_mutex_t big;
extern pthread_cond_t changed;

struct CUcontext_s {
	int id, device, fault;
	bool dead;
	size_t limits[7];
	CUstream streams;
	CUmodule modules;
	unsigned char *code; /* addresses that it has reserved, of which modules' variables have the first */
	size_t used;
	int events, execs;
};

/* A point of a stream's work that an event stands for. */
struct point {
	bool done;
	double at;
	int refs;
};

struct CUevent_s {
	int id;
	CUcontext ctx;
	bool timing;
	struct point *last;
};

struct op {
	struct op *next;
	int (*run)(struct op *, CUcontext);
	struct point *point;
	void (*end)(struct op *);
	void *more;
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUfunction function;
	unsigned int grid[3], block[3];
	unsigned char params[256];
	uint64_t value;
	int size;
};

struct CUstream_s {
	int id;
	CUcontext ctx;
	CUstream next;
	struct op *first, **last;
	bool busy, closing;
	pthread_t thread;
};

struct CUfunction_s {
	CUmodule module;
	char name[48];
	int n, sizes[MAX_PARAMS], offsets[MAX_PARAMS];
	int threads, shared, dynamic, carve;
	bool loaded;
	int (*run)(struct op *, CUcontext);
};

struct global {
	char name[48];
	size_t at, n;
};

struct CUmodule_s {
	int id;
	CUcontext ctx;
	CUmodule next;
	struct CUfunction_s functions[MODULE_NAMES];
	int nfunctions;
	struct global globals[MODULE_NAMES];
	int nglobals;
	unsigned char *bytes; /* of the variables */
	size_t nbytes;
};

/* fake.c: counters, the log, and calls that are to fail. */
extern CUcontext current_context(void);
void *fake_count(void *p, int kind, int n);
bool fake_enter(const char *call, CUresult *r, const char *form, ...);
int fake_number(int kind);
size_t memory_of_device(void);
bool loads_whole(void);
enum { CONTEXTS, STREAMS, EVENTS, MODULES, MEMORIES, MAPPINGS, RESERVATIONS, PINNED, REGISTERED, EXECS, COMMS, LISTED, KINDS };

/* Logs a call, and leaves with the error that the test has set. */
#define CALL(form, ...) \
	do { \
		CUresult told; \
		if (fake_enter(__func__, &told, form, ##__VA_ARGS__)) \
			return (told); \
	} while (0)

/* The same for calls that end something: the thing ends even so. */
#define ENDING(form, ...) \
	CUresult told = OK; \
	fake_enter(__func__, &told, form, ##__VA_ARGS__)

#define CONTEXT(c) \
	CUcontext c = current_context(); \
	if (!c) \
		return (INVALID_CONTEXT); \
	if (c->fault) \
		return (c->fault)

/* memory.c */
bool device_reaches(int device, uint64_t at, size_t n);

/* stream.c */
struct op *new_op(int (*run)(struct op *, CUcontext));
void push(CUstream s, struct op *o);
void end_streams(CUcontext c);
void let_go(struct point *p);

/* kernels.c */
int (*kernel_named(const char *name))(struct op *, CUcontext);

/* link.c */
void complain(char *log, size_t n, const char *form, const char *name);
void take_name(char *out, size_t n, const char *p);

/* launch.c */
struct launch_attribute {
	int id, pad;
	uint64_t value[8];
};

/* The public layout, as in programs. */
struct launch_config {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	struct launch_attribute *attributes;
	unsigned int n;
};

/* module.c */
CUresult launch(CUfunction f, const unsigned int *grid, const unsigned int *block, CUstream stream, void *params);
void end_module(CUmodule m);
int run_launch(struct op *o, CUcontext c);
int run_copy(struct op *o, CUcontext c);
int run_fill(struct op *o, CUcontext c);
int run_write(struct op *o, CUcontext c);

#endif
