// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE

#include "image.h"

#include "../raw.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum {
	PAGE = 4096,
	MOST_PARTS = 1 << 16,

	MAGIC_WRAPPER = 0x466243b1,
	MAGIC_ELF = 0x464c457f,
	MAGIC_BUNDLE = 0x4c474e53, /* SNGL: an image that cuLinkComplete returns */
};
#define MAGIC_FATBIN 0xba55ed50u

struct wrapper {
	uint32_t magic, version;
	uint64_t fatbin, list;
};

struct fatbin {
	uint32_t magic;
	uint16_t version, header;
	uint64_t body;
};

/* The beginning of an entry of a fatbin. */
struct entry {
	uint16_t kind, unused;
	uint32_t header, padded;
};
enum { ENTRY_LEAST = 64, KIND_PTX = 1 };

struct bundle {
	uint32_t magic, parts;
	uint64_t size;
};

_Static_assert(sizeof(struct wrapper) == 24 && sizeof(struct fatbin) == 16 && sizeof(struct entry) == 12, "layout");
_Static_assert(sizeof(struct bundle) == 16, "layout");

/*
 * Copy memory of this process that may not be there. Where the system call is not allowed, the
 * memory is read directly, as the driver does.
 */
static bool peek_memory(uint64_t at, void *to, size_t n)
{
	const struct iovec here = { to, n }, there = { (void *)at, n };
	long got;

	if (at + n < at)
		return false;
	got = raw6(SYS_process_vm_readv, raw6(SYS_getpid, 0, 0, 0, 0, 0, 0), (long)&here, 1, (long)&there, 1, 0);
	if (got == -ENOSYS || got == -EPERM) {
		memcpy(to, (const void *)at, n);
		return true;
	}
	return got == (long)n;
}

/* Whether a byte of each page can be read. */
static bool is_readable(uint64_t at, size_t n)
{
	enum { MANY = 128 };
	const uint64_t end = at + n;

	if (end < at)
		return false;
	while (at < end) {
		char bytes[MANY];
		struct iovec here = { bytes, 0 }, there[MANY];
		long got;

		while (here.iov_len < MANY && at < end) {
			there[here.iov_len++] = (struct iovec){ (void *)at, 1 };
			at = (at / PAGE + 1) * PAGE;
		}
		got = raw6(SYS_process_vm_readv, raw6(SYS_getpid, 0, 0, 0, 0, 0, 0), (long)&here, 1, (long)there, (long)here.iov_len, 0);
		if (got == -ENOSYS || got == -EPERM)
			return true;
		if (got != (long)here.iov_len)
			return false;
	}
	return true;
}

static CUresult set_image(struct sing_image *i, uint64_t at, uint64_t n)
{
	if (n > SING_IMAGE_MAX || !is_readable(at, n))
		return CUDA_ERROR_INVALID_IMAGE;
	*i = (struct sing_image){ .at = (const unsigned char *)at, .n = n };
	return CUDA_SUCCESS;
}

static CUresult find_fatbin(uint64_t at, struct sing_image *i)
{
	struct fatbin f;

	if (!peek_memory(at, &f, sizeof(f)) || f.magic != MAGIC_FATBIN || f.header < sizeof(f) || f.body > SING_IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	return set_image(i, at, f.header + f.body);
}

static CUresult find_bundle(uint64_t at, struct sing_image *i)
{
	struct bundle b;

	if (!peek_memory(at, &b, sizeof(b)) || b.size < sizeof(b))
		return CUDA_ERROR_INVALID_IMAGE;
	return set_image(i, at, b.size);
}

/*
 * A table of an ELF file, of segments or of sections: the table's place, and the offsets of the three fields of an
 * element that have the type, place and size of a part of the file.
 */
struct elf_table {
	uint64_t at;
	uint16_t n, size, least;
	size_t type, offset, span; /* of an element */
	bool sections;
};

/* Raise *end to the end of all that a table has. */
static bool elf_reach(uint64_t file, const struct elf_table *t, uint64_t *end)
{
	const uint64_t bytes = (uint64_t)t->n * t->size;

	if (t->n == 0)
		return true;
	if (t->size < t->least || t->at > SING_IMAGE_MAX || !is_readable(file + t->at, bytes))
		return false;
	if (*end < t->at + bytes)
		*end = t->at + bytes;
	for (unsigned k = 0; k < t->n; ++k) {
		const unsigned char *e = (const unsigned char *)(file + t->at + (uint64_t)k * t->size);
		uint64_t at, span;
		uint32_t type;

		memcpy(&type, e + t->type, sizeof(type));
		memcpy(&at, e + t->offset, sizeof(at));
		memcpy(&span, e + t->span, sizeof(span));
		if (t->sections && type == SHT_NOBITS) /* has no bytes in the file */
			continue;
		if (at > SING_IMAGE_MAX || span > SING_IMAGE_MAX)
			return false;
		if (*end < at + span)
			*end = at + span;
	}
	return true;
}

static CUresult find_elf(uint64_t at, struct sing_image *i)
{
	uint64_t end = sizeof(Elf64_Ehdr);
	Elf64_Ehdr h;

	if (!peek_memory(at, &h, sizeof(h)) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
		return CUDA_ERROR_INVALID_IMAGE;

	const struct elf_table sections = {
		.at = h.e_shoff, .n = h.e_shnum, .size = h.e_shentsize, .least = sizeof(Elf64_Shdr),
		.type = offsetof(Elf64_Shdr, sh_type), .offset = offsetof(Elf64_Shdr, sh_offset),
		.span = offsetof(Elf64_Shdr, sh_size), .sections = true,
	};
	const struct elf_table segments = {
		.at = h.e_phoff, .n = h.e_phnum, .size = h.e_phentsize, .least = sizeof(Elf64_Phdr),
		.type = offsetof(Elf64_Phdr, p_type), .offset = offsetof(Elf64_Phdr, p_offset),
		.span = offsetof(Elf64_Phdr, p_filesz),
	};

	if (!elf_reach(at, &sections, &end) || !elf_reach(at, &segments, &end))
		return CUDA_ERROR_INVALID_IMAGE;
	return set_image(i, at, end);
}

/* A text ends with a NUL. No page beyond the page of the NUL is read. */
static CUresult find_text(uint64_t at, struct sing_image *i)
{
	uint64_t next = at;

	while (next - at < SING_IMAGE_MAX) {
		char page[PAGE];
		const size_t n = PAGE - next % PAGE;
		const char *nul;

		if (!peek_memory(next, page, n))
			return CUDA_ERROR_INVALID_IMAGE;
		nul = memchr(page, 0, n);
		if (nul != NULL) {
			*i = (struct sing_image){ .at = (const unsigned char *)at, .n = next - at + (size_t)(nul - page) };
			return i->n > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
		}
		next += n;
	}
	return CUDA_ERROR_INVALID_IMAGE;
}

/* Whether an image that was found has PTX. */
static bool has_ptx(const struct sing_image *i)
{
	static const char word[] = ".version";
	struct fatbin f;
	size_t at;

	if (i->n < sizeof(f))
		return false;
	memcpy(&f, i->at, sizeof(f));
	if (f.magic != MAGIC_FATBIN)
		return f.magic != MAGIC_ELF && f.magic != MAGIC_BUNDLE && memmem(i->at, i->n, word, sizeof(word) - 1) != NULL;
	for (at = f.header; i->n - at >= ENTRY_LEAST;) {
		struct entry e;

		memcpy(&e, i->at + at, sizeof(e));
		if (e.header < ENTRY_LEAST || (uint64_t)e.header + e.padded > i->n - at)
			return false;
		if (e.kind == KIND_PTX)
			return true;
		at += e.header + e.padded;
	}
	return false;
}

/* Go through a list of fatbins that ends with 0; put them behind each other if there is a place. They have at most room bytes. */
static CUresult list_parts(uint64_t list, struct bundle *b, unsigned char *to, size_t room)
{
	*b = (struct bundle){ .magic = MAGIC_BUNDLE, .size = sizeof(*b) };
	for (; b->parts < MOST_PARTS; list += sizeof(uint64_t)) {
		struct sing_image part;
		uint64_t at, n;
		CUresult r;

		if (!peek_memory(list, &at, sizeof(at)))
			return CUDA_ERROR_INVALID_IMAGE;
		if (at == 0)
			return CUDA_SUCCESS;
		r = find_fatbin(at, &part);
		if (r != CUDA_SUCCESS)
			return r;
		n = part.n;
		if (b->size + sizeof(n) + n > room)
			return CUDA_ERROR_INVALID_IMAGE;
		if (to != NULL) {
			memcpy(to + b->size, &n, sizeof(n));
			memcpy(to + b->size + sizeof(n), part.at, n);
		}
		b->size += sizeof(n) + n;
		++b->parts;
	}
	return CUDA_ERROR_INVALID_IMAGE;
}

/*
 * Find the image in the wrapper that nvcc puts around a fatbin. In version 2 the fatbin may be linked machine code,
 * beside a list of the fatbins of which it was made, which may still have PTX.
 */
static CUresult find_wrapped(uint64_t at, struct sing_image *i)
{
	struct wrapper w;
	struct bundle b, again;
	unsigned char *own;
	uint32_t magic;
	CUresult r;

	if (!peek_memory(at, &w, sizeof(w)) || !peek_memory(w.fatbin, &magic, sizeof(magic)) || magic == MAGIC_WRAPPER)
		return CUDA_ERROR_INVALID_IMAGE;
	r = sing_image_at((const void *)w.fatbin, i);
	if (r != CUDA_SUCCESS || w.version < 2 || w.list == 0 || has_ptx(i))
		return r;
	r = list_parts(w.list, &b, NULL, SING_IMAGE_MAX);
	if (r != CUDA_SUCCESS || b.parts == 0)
		return r;
	own = malloc(b.size);
	if (own == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = list_parts(w.list, &again, own, b.size);
	if (r == CUDA_SUCCESS && (again.size != b.size || again.parts != b.parts))
		r = CUDA_ERROR_INVALID_IMAGE; /* the program has changed the list meanwhile */
	if (r != CUDA_SUCCESS) {
		free(own);
		return r;
	}
	memcpy(own, &b, sizeof(b));
	*i = (struct sing_image){ .at = own, .n = b.size, .own = own };
	return CUDA_SUCCESS;
}

CUresult sing_image_at(const void *address, struct sing_image *i)
{
	const uint64_t at = (uint64_t)(uintptr_t)address;
	uint32_t magic;

	if (address == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!peek_memory(at, &magic, sizeof(magic)))
		return CUDA_ERROR_INVALID_IMAGE;
	switch (magic) {
	case MAGIC_WRAPPER:
		return find_wrapped(at, i);
	case MAGIC_FATBIN:
		return find_fatbin(at, i);
	case MAGIC_ELF:
		return find_elf(at, i);
	case MAGIC_BUNDLE:
		return find_bundle(at, i);
	default:
		return find_text(at, i);
	}
}

/* Read all of a file. False: the file is too long, or cannot be read. */
static bool read_file(int fd, struct sing_image *i)
{
	size_t room = 1 << 16, n = 0;
	unsigned char *own = malloc(room);

	while (own != NULL) {
		const long got = raw(SYS_read, fd, (long)(own + n), (long)(room - n), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || n + (size_t)got > SING_IMAGE_MAX)
			break;
		if (got == 0) {
			*i = (struct sing_image){ .at = own, .n = n, .own = own };
			return true;
		}
		n += (size_t)got;
		if (n == room) {
			unsigned char *more = realloc(own, room *= 2);

			if (more == NULL)
				break;
			own = more;
		}
	}
	free(own);
	return false;
}

CUresult sing_image_file(const char *path, struct sing_image *i)
{
	const int e = errno;
	CUresult r = CUDA_ERROR_FILE_NOT_FOUND;
	long fd;

	if (path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	fd = raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		if (read_file((int)fd, i))
			r = CUDA_SUCCESS;
		raw(SYS_close, fd, 0, 0, 0);
	}
	errno = e;
	return r;
}

void sing_image_drop(struct sing_image *i)
{
	free(i->own);
	*i = (struct sing_image){ 0 };
}
