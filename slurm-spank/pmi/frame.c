// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pmi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void begin_frame(struct buffer *b, enum frame_kind kind, size_t n)
{
	const char byte = (char)kind;

	add_number(b, (uint32_t)n);
	add_bytes(b, &byte, 1);
}

ssize_t find_frame(const struct buffer *b, size_t max, struct frame *f)
{
	size_t n;

	if (b->n < FRAME_HEADER)
		return (0);
	n = number_at(b->bytes);
	if (n > max)
		return (-1);
	if (b->n - FRAME_HEADER < n)
		return (0);
	*f = (struct frame){ .kind = (unsigned char)b->bytes[4], .bytes = b->bytes + FRAME_HEADER, .n = n };

	return ((ssize_t)(FRAME_HEADER + n));
}

/* Copy the part of text up to a colon into word. Returns the text behind the colon, or NULL. */
static const char *cut_word(char *word, size_t size, const char *text)
{
	const size_t n = strcspn(text, ":");

	if (n == 0 || n >= size || text[n] != ':')
		return (NULL);
	memcpy(word, text, n);
	word[n] = '\0';

	return (text + n + 1);
}

int parse_place(struct hub_place *p, const char *text)
{
	char address[INET_ADDRSTRLEN], port[8];
	struct in_addr in;
	char *end;
	unsigned long number;

	text = cut_word(address, sizeof(address), text);
	if (!text || inet_pton(AF_INET, address, &in) != 1)
		return (-1);
	text = cut_word(port, sizeof(port), text);
	if (!text || strlen(text) != PMI_SECRET_SIZE || strspn(text, "0123456789abcdef") != PMI_SECRET_SIZE)
		return (-1);
	number = strtoul(port, &end, 10);
	if (port[0] < '0' || port[0] > '9' || *end || number == 0 || number > UINT16_MAX)
		return (-1);
	p->address = in.s_addr;
	p->port = htons((uint16_t)number);
	memcpy(p->secret, text, PMI_SECRET_SIZE + 1);

	return (0);
}

int connect_to_place(const struct hub_place *p)
{
	const struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = p->address, .sin_port = p->port };
	const int on = 1;
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int saved;
	int rv;

	if (fd < 0)
		return (-1);
	do {
		rv = connect(fd, (const struct sockaddr *)&to, sizeof(to));
	} while (rv < 0 && errno == EINTR);
	if (rv < 0) {
		saved = errno;
		close(fd);
		errno = saved;
		return (-1);
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

	return (fd);
}

/* Compares all bytes, so that the time does not depend on the first byte that differs. */
bool same_secret(const char *a, const char *b)
{
	unsigned char differences = 0;

	for (size_t i = 0; i < PMI_SECRET_SIZE; ++i)
		differences |= (unsigned char)(a[i] ^ b[i]);

	return (differences == 0);
}
