// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Variables that are declared managed. The server lays out the variables of an image, and this process makes the memory, because
 * only a process knows which of its addresses are free:
 *
 *	module_load, with the offer of memory	-> CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: the image has such variables
 *	managed_size				-> how much they need
 *	managed_alloc, host_share		the memory, as of cuMemAllocManaged
 *	module_load, with the memory's address	the server writes the initial bytes there
 *
 * A restore carries out the last of these again, with the same address. CUDA's runtime loads an image into each context in which
 * the program uses it: the variables are the same in all of these, and the later loads keep their bytes.
 */
#include "variables.h"

#include "hostmem.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* The options that are added; the server knows their numbers. */
enum { MANAGED_AT = 1 << 20, MANAGED_KEPT };

struct memory {
	uintptr_t at;
	const void *common;
	unsigned int users;
};

/* Code that uses such memory. */
struct user {
	uint64_t code, context;
	struct memory *memory;
	struct user *next;
};

/* Held during the load of an image with such variables, too: a second load of the same image finds them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct user *users;

static void add_option(struct sing_jit *jit, int name, uint64_t value)
{
	jit->names[jit->n] = name;
	jit->values[jit->n++] = value;
}

static struct memory *find_memory(const void *common)
{
	if (common != NULL)
		for (const struct user *u = users; u != NULL; u = u->next)
			if (u->memory->common == common)
				return u->memory;
	return NULL;
}

static CUresult make_memory(const struct sing_load *load, struct memory **m)
{
	unsigned long long n = 0;
	CUresult r = sing_send_managed_size(0, (void *)load->image->at, load->image->n, &n);

	*m = calloc(1, sizeof(**m));
	if (r == CUDA_SUCCESS && (*m == NULL || n == 0))
		r = n == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS) {
		(*m)->common = load->common;
		r = sing_pinned_allocate_variables(&(*m)->at, n);
	}
	if (r != CUDA_SUCCESS) {
		free(*m);
		*m = NULL;
	}
	return r;
}

static void drop_memory(struct memory *m)
{
	if (m == NULL || m->users > 0)
		return;
	sing_pinned_free_variables(m->at);
	free(m);
}

/* Load code with memory for its variables. The caller holds the lock. */
static CUresult load_into_memory(struct sing_load *load, uint64_t *made)
{
	struct user *const u = calloc(1, sizeof(*u));
	struct memory *m = find_memory(load->common);
	CUresult r = u == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;

	if (r == CUDA_SUCCESS && m == NULL)
		r = make_memory(load, &m);
	if (r == CUDA_SUCCESS) {
		add_option(load->jit, MANAGED_AT, m->at);
		if (m->users > 0)
			add_option(load->jit, MANAGED_KEPT, 1);
		r = load->send(load, made);
	} else if (r == CUDA_ERROR_NOT_SUPPORTED) { /* the server may not map memory of this process, and has logged that */
		r = load->send(load, made);
		free(u);
		return r;
	}
	if (r != CUDA_SUCCESS) {
		drop_memory(m);
		free(u);
		return r;
	}
	++m->users;
	*u = (struct user){ *made, load->context, m, users };
	users = u;
	return r;
}

CUresult sing_load_with_variables(struct sing_load *load, uint64_t *made)
{
	const unsigned int n = load->jit->n;
	CUresult r;

	add_option(load->jit, MANAGED_AT, 0);
	r = load->send(load, made);
	load->jit->n = n;
	if (r != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
		return r;
	pthread_mutex_lock(&lock);
	r = load_into_memory(load, made);
	pthread_mutex_unlock(&lock);
	return r;
}

/* Forget the users with that code, or of that context. */
static void forget_users(uint64_t code, uint64_t context)
{
	struct user **at = &users;

	pthread_mutex_lock(&lock);
	while (*at != NULL) {
		struct user *const u = *at;

		if (u->code != code && (context == 0 || u->context != context)) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		--u->memory->users;
		drop_memory(u->memory);
		free(u);
	}
	pthread_mutex_unlock(&lock);
}

void sing_variables_unloaded(uint64_t code)
{
	forget_users(code, 0);
}

void sing_variables_ended(uint64_t context)
{
	forget_users(0, context);
}
