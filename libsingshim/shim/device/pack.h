// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* How the generated stubs put numbers into messages and take them out of answers. */
#ifndef SING_DEVICE_PACK_H
#define SING_DEVICE_PACK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "handles and sizes have 8 bytes");

/* Neither a message nor an answer is longer. */
#define SING_LONGEST ((size_t)1 << 30)
#define SING_LONGEST_ANSWER ((size_t)64 << 20)

/* A message of up to this many bytes is put together on the stack. */
#define SING_SMALL 512
/*
 * The same for posted messages, so that a launch allocates no memory: the parameters of most kernels have at most
 * 4 KiB.
 */
#define SING_SMALL_POSTED 4608

/* *bytes = count * size, or false if that is more than any message has. */
static inline bool sing_bytes(uint64_t count, size_t size, size_t longest, size_t *bytes)
{
	return !__builtin_mul_overflow(count, size, bytes) && *bytes <= longest;
}

static inline unsigned char *sing_room(unsigned char *small, size_t room, size_t n)
{
	return n <= room ? small : malloc(n);
}

static inline void sing_room_done(unsigned char *room, const unsigned char *small)
{
	if (room != small)
		free(room);
}

static inline unsigned char *sing_put(unsigned char *p, const void *from, size_t n)
{
	if (n > 0)
		memcpy(p, from, n);
	return p + n;
}

/* Take n bytes of the rest of an answer, if there are so many. */
static inline bool sing_take(const unsigned char **p, const unsigned char *end, void *to, size_t n)
{
	if ((size_t)(end - *p) < n)
		return false;
	if (n > 0)
		memcpy(to, *p, n);
	*p += n;
	return true;
}

/* Take an array of at most room elements. */
static inline bool sing_take_array(const unsigned char **p, const unsigned char *end, void *to, uint64_t room, size_t size)
{
	uint64_t count;

	return sing_take(p, end, &count, sizeof(count)) && count <= room && sing_take(p, end, to, count * size);
}

/* Take a text into a buffer of that size, with its NUL. */
static inline bool sing_take_text(const unsigned char **p, const unsigned char *end, char *to, uint64_t room)
{
	uint64_t count;

	if (!sing_take(p, end, &count, sizeof(count)) || (room > 0 ? count >= room : count > 0))
		return false;
	if (room == 0)
		return true;
	to[count] = 0;
	return sing_take(p, end, to, count);
}

#endif
