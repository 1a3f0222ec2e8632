// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Published values. The hub keeps texts, so a value is kept there in hexadecimal digits: the rank of its publisher, then
 * the value as the library packs it.
 */
#define _GNU_SOURCE
#include "pmix.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request about several keys, which the hub answers one by one. */
struct names {
	pthread_mutex_t lock;
	const struct task *task;
	size_t awaited; /* answers, plus 1 while the request is being sent */
	abi_status status;
	abi_op_done done;	   /* NULL for a lookup */
	abi_lookup_done looked_up; /* NULL for other requests */
	void *data;
	char **keys;
	struct abi_published *found;
	size_t answered, n_found;
};

static struct names *new_names(const struct task *t, size_t n, void *data)
{
	struct names *s = calloc(1, sizeof(*s));

	if (!s)
		return (NULL);
	*s = (struct names){ .task = t, .awaited = 1, .data = data };
	pthread_mutex_init(&s->lock, NULL);
	s->keys = calloc(n + 1, sizeof(*s->keys));
	s->found = calloc(n + 1, sizeof(*s->found));
	if (s->keys && s->found)
		return (s);
	free(s->keys);
	free(s->found);
	free(s);

	return (NULL);
}

/* Count an answer, or the end of sending. After the last of them the library gets its answer, and s is freed. */
static void count_answer(struct names *s)
{
	size_t left;

	pthread_mutex_lock(&s->lock);
	left = --s->awaited;
	pthread_mutex_unlock(&s->lock);
	if (left > 0)
		return;
	if (s->looked_up)
		s->looked_up(s->n_found ? ABI_SUCCESS : ABI_ERR_NOT_FOUND, s->found, s->n_found, s->data);
	else
		s->done(s->status, s->data);
	/*
	 * The library uses found until it has passed the answer to its thread, so found, which is small, is not freed.
	 */
	for (char **key = s->keys; *key; ++key)
		free(*key);
	free(s->keys);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void take_digits(struct buffer *b, const char *digits, size_t n)
{
	char pair[3] = { 0 };

	for (size_t i = 0; i + 1 < n; i += 2) {
		memcpy(pair, digits + i, 2);
		pair[0] = (char)strtoul(pair, NULL, 16);
		add_bytes(b, pair, 1);
	}
}

static char *make_digits(const char *bytes, size_t n)
{
	char *digits = malloc(2 * n + 1);

	for (size_t i = 0; digits && i < n; ++i)
		snprintf(digits + 2 * i, 3, "%02x", (unsigned char)bytes[i]);

	return (digits);
}

/* Add a value that was found. */
static void add_found(struct names *s, const char *key, const char *digits, size_t n)
{
	struct abi_published *found = &s->found[s->n_found];
	struct buffer b = { 0 };
	struct abi_buffer packed = { 0 };
	struct abi_info info = { 0 };
	int32_t one = 1;

	take_digits(&b, digits, n);
	if (b.failed || b.n <= 4)
		goto out;
	packed = (struct abi_buffer){
		.base = b.bytes + 4, .pack = b.bytes + b.n, .unpack = b.bytes + 4, .allocated = b.n - 4, .used = b.n - 4,
	};
	if (pmix.PMIx_Data_unpack(NULL, &packed, &info, &one, ABI_INFO) != ABI_SUCCESS)
		goto out;
	snprintf(found->proc.nspace, sizeof(found->proc.nspace), "%s", s->task->step);
	found->proc.rank = number_at(b.bytes);
	snprintf(found->key, sizeof(found->key), "%s", key);
	found->value = info.value;
	++s->n_found;

out:
	free_buffer(&b);
}

static void on_name(void *data, int status, uint32_t context, const char *bytes, size_t n)
{
	struct names *s = data;

	(void)context;
	if (s->looked_up && status == STATUS_DONE)
		add_found(s, s->keys[s->answered], bytes, n);
	else if (status != STATUS_DONE)
		s->status = s->done && n > 0 ? ABI_ERR_DUPLICATE_KEY : ABI_ERR_NOT_FOUND;
	++s->answered; /* in the order of the keys, as the hub answers */
	count_answer(s);
}

/* Send the request for a key. */
static void send_name(struct names *s, enum frame_kind kind, const char *key, const char *value)
{
	pthread_mutex_lock(&s->lock);
	++s->awaited;
	pthread_mutex_unlock(&s->lock);
	if (ask_name(kind, key, value, on_name, s) == 0)
		return;
	s->status = ABI_ERR_LOST_CONNECTION;
	count_answer(s);
}

static bool is_directive(const char *key)
{
	return (strncmp(key, "pmix", 4) == 0); /* reserved by PMIx */
}

static void publish_value(struct names *s, const struct abi_info *info)
{
	struct abi_buffer packed = { 0 };
	struct buffer b = { 0 };
	char *digits = NULL;

	add_number(&b, (uint32_t)s->task->rank);
	if (pmix.PMIx_Data_pack(NULL, &packed, (void *)info, 1, ABI_INFO) == ABI_SUCCESS) {
		add_bytes(&b, packed.base, packed.used);
		digits = b.failed ? NULL : make_digits(b.bytes, b.n);
	}
	if (digits)
		send_name(s, FRAME_PUBLISH, info->key, digits);
	else
		s->status = ABI_ERR_NOMEM;
	free(digits);
	free(packed.base);
	free_buffer(&b);
}

abi_status publish_names(const struct task *t, const struct abi_info *info, size_t n, abi_op_done done, void *data)
{
	struct names *s = new_names(t, n, data);

	if (!s)
		return (ABI_ERR_NOMEM);
	s->done = done;
	for (size_t i = 0; i < n; ++i) {
		if (!is_directive(info[i].key))
			publish_value(s, &info[i]);
	}
	count_answer(s);

	return (ABI_SUCCESS);
}

static abi_status ask_about_names(struct names *s, enum frame_kind kind, char **keys)
{
	size_t n = 0;

	for (; keys && keys[n]; ++n) {
		s->keys[n] = strdup(keys[n]);
		if (!s->keys[n])
			break;
	}
	for (size_t i = 0; i < n; ++i)
		send_name(s, kind, s->keys[i], "");
	count_answer(s);

	return (ABI_SUCCESS);
}

static size_t count_keys(char **keys)
{
	size_t n = 0;

	while (keys && keys[n])
		++n;

	return (n);
}

abi_status look_up_names(const struct task *t, char **keys, abi_lookup_done done, void *data)
{
	struct names *s = new_names(t, count_keys(keys), data);

	if (!s)
		return (ABI_ERR_NOMEM);
	s->looked_up = done;

	return (ask_about_names(s, FRAME_LOOKUP, keys));
}

abi_status unpublish_names(const struct task *t, char **keys, abi_op_done done, void *data)
{
	struct names *s = new_names(t, count_keys(keys), data);

	if (!s)
		return (ABI_ERR_NOMEM);
	s->done = done;

	return (ask_about_names(s, FRAME_UNPUBLISH, keys));
}
