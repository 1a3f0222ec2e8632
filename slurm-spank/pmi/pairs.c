// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pmi.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a. Keys that a user chooses so that they collide slow down only that user's own step. */
static size_t hash_key(const char *key)
{
	uint64_t hash = 14695981039346656037u;

	for (; *key; ++key)
		hash = (hash ^ (unsigned char)*key) * 1099511628211u;

	return ((size_t)hash);
}

/* The slot of a key, or the empty slot for a new key. The table always has an empty slot. */
static struct pair *find_slot(const struct pairs *p, const char *key)
{
	size_t i = hash_key(key) & (p->room - 1);

	while (p->slots[i].key && strcmp(p->slots[i].key, key))
		i = (i + 1) & (p->room - 1);

	return (&p->slots[i]);
}

/* Double the table if half of its slots are taken, so that there are always empty slots. */
static int grow_table(struct pairs *p)
{
	struct pairs larger = { .room = p->room ? p->room * 2 : 64, .n = p->n, .bytes = p->bytes };

	if (p->n * 2 < p->room)
		return (0);
	larger.slots = calloc(larger.room, sizeof(*larger.slots));
	if (!larger.slots)
		return (-1);
	for (size_t i = 0; i < p->room; ++i) {
		if (p->slots[i].key)
			*find_slot(&larger, p->slots[i].key) = p->slots[i];
	}
	free(p->slots);
	*p = larger;

	return (0);
}

int put_pair(struct pairs *p, const char *key, size_t key_size, const char *value, size_t value_size)
{
	struct pair new = { 0 };
	struct pair *slot;
	int rv = -1;

	if (memchr(key, '\0', key_size) || memchr(value, '\0', value_size))
		goto out;
	if (key_size + value_size > PMI_MAX_PAIRS - p->bytes || grow_table(p))
		goto out;
	new.key = strndup(key, key_size);
	new.value = strndup(value, value_size);
	if (!new.key || !new.value)
		goto out;
	slot = find_slot(p, new.key);
	if (slot->key) {
		p->bytes -= strlen(slot->key) + strlen(slot->value);
		free(slot->key);
		free(slot->value);
		--p->n;
	}
	*slot = new;
	new = (struct pair){ 0 };
	++p->n;
	p->bytes += key_size + value_size;

	rv = 0;

out:
	free(new.key);
	free(new.value);

	return (rv);
}

const char *get_value(const struct pairs *p, const char *key)
{
	return (p->room ? find_slot(p, key)->value : NULL);
}

bool remove_pair(struct pairs *p, const char *key)
{
	struct pair *slot = p->room ? find_slot(p, key) : NULL;
	size_t i;

	if (!slot || !slot->key)
		return (false);
	p->bytes -= strlen(slot->key) + strlen(slot->value);
	--p->n;
	free(slot->key);
	free(slot->value);
	*slot = (struct pair){ 0 };
	/* The pairs behind the slot may be there because the slot was taken: put them in again. */
	for (i = (size_t)(slot - p->slots + 1) & (p->room - 1); p->slots[i].key; i = (i + 1) & (p->room - 1)) {
		const struct pair moved = p->slots[i];

		p->slots[i] = (struct pair){ 0 };
		*find_slot(p, moved.key) = moved;
	}

	return (true);
}

void free_pairs(struct pairs *p)
{
	for (size_t i = 0; i < p->room; ++i) {
		free(p->slots[i].key);
		free(p->slots[i].value);
	}
	free(p->slots);
	*p = (struct pairs){ 0 };
}

void encode_pair(struct buffer *b, const char *key, const char *value)
{
	add_number(b, (uint32_t)strlen(key));
	add_number(b, (uint32_t)strlen(value));
	add_text(b, key);
	add_text(b, value);
}

int put_encoded_pairs(struct pairs *p, const char *bytes, size_t n)
{
	while (n > 0) {
		size_t key, value;

		if (n < 8)
			return (-1);
		key = number_at(bytes);
		value = number_at(bytes + 4);
		bytes += 8;
		n -= 8;
		if (key > n || value > n - key || put_pair(p, bytes, key, bytes + key, value))
			return (-1);
		bytes += key + value;
		n -= key + value;
	}

	return (0);
}
