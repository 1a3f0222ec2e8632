// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The hub and the server as processes of their own, and the parsers as a filter, for the tests of this folder.
 *
 *	harness hub                          prints its place; ends when standard input does
 *	harness server PLACE RANK SIZE PID   the task is at descriptor 3
 *	harness parse                        inputs, each behind its length in four bytes: a single byte says that each was read
 */
#define _GNU_SOURCE
#include "../../pmi/pmi.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run_as_hub(void)
{
	struct hub_place p;
	char address[INET_ADDRSTRLEN];
	const int listener = listen_for_servers(&p);

	if (listener < 0) {
		perror("listen");
		exit(2);
	}
	inet_ntop(AF_INET, &p.address, address, sizeof(address));
	printf("%s:%d:%s\n", address, ntohs(p.port), p.secret);
	fflush(stdout);
	run_hub(listener, 0, p.secret);
}

static void run_as_server(char **argv)
{
	struct task t = { .rank = atoi(argv[1]), .size = atoi(argv[2]), .step = "s0-1", .program = atoi(argv[3]) };

	if (parse_place(&t.hub, argv[0])) {
		fprintf(stderr, "no place: %s\n", argv[0]);
		exit(2);
	}
	serve_task(&t, 3);
}

/* The first byte of an input says which parser the input is for. */
static void parse_input(char *bytes, size_t n)
{
	const int which = n ? bytes[0] : 0;
	struct buffer b = { 0 };
	struct pairs pairs = { 0 };
	struct hub_place place;
	struct command c;
	struct frame f;
	size_t length;
	char *text;
	ssize_t used;

	add_bytes(&b, bytes + 1, n ? n - 1 : 0);
	switch (which) {
	case '1':
	case '2':
		while (b.n && (used = find_command(b.bytes, b.n, which - '0', &text, &length)) > 0) {
			text = strndup(text, length);
			if (parse_command(&c, text, which - '0') == 0)
				find_field(&c, "cmd");
			free(text);
			drop_bytes(&b, (size_t)used);
		}
		break;
	case 'f':
		while ((used = find_frame(&b, 1 << 20, &f)) > 0) {
			put_encoded_pairs(&pairs, f.bytes, f.n);
			drop_bytes(&b, (size_t)used);
		}
		break;
	case 'p':
		put_encoded_pairs(&pairs, b.bytes, b.n);
		break;
	case 'h':
		add_bytes(&b, "", 1);
		parse_place(&place, b.bytes);
		break;
	}
	free_buffer(&b);
	free_pairs(&pairs);
}

static void parse_inputs(void)
{
	char header[4];

	while (fread(header, 1, 4, stdin) == 4) {
		const size_t n = number_at(header);
		char *bytes = malloc(n + 1);

		if (!bytes || fread(bytes, 1, n, stdin) != n)
			exit(2);
		parse_input(bytes, n);
		free(bytes);
		putchar('.');
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "hub") == 0)
		run_as_hub();
	else if (argc == 6 && strcmp(argv[1], "server") == 0)
		run_as_server(argv + 2);
	else if (argc == 2 && strcmp(argv[1], "parse") == 0)
		parse_inputs();
	else
		return (2);

	return (0);
}
