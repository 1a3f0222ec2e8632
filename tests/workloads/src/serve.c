// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A server that continues a client's text: each line is a request, and the answer is 16 letters and a hash. The state
 * of its recurrent net is on the device and changes with each letter, so an answer depends on all requests before.
 * Requests come on stdin, or with --socket PATH on connections in turn. A line "quit" ends the server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "data.h"
#include "layers.h"
#include "model.h"

enum { WIDTH = 64, LETTERS = 32, ANSWER = 16, LONGEST = 4096 };

static const char letters[LETTERS + 1] = " abcdefghijklmnopqrstuvwxyz.,!?-";

struct server {
	struct rank *r;
	struct model m;
	unsigned table, place, w, w_out, b_out;
	CUdeviceptr h, u, hw, logits, id; /* the state, and buffers for the letter in work */
	uint32_t *letter;                 /* pinned: to the device, and back */
	float *state;
	CUstream copies;
	CUevent ready, used;
	unsigned long requests;
};

static void make_server(struct server *s, struct rank *r)
{
	memset(s, 0, sizeof(*s));
	s->r = r;
	s->table = add_part(&s->m, LETTERS * WIDTH, 0.8f, 0);
	s->place = add_part(&s->m, WIDTH, 0, 0);
	s->w = add_part(&s->m, WIDTH * WIDTH, 0.25f, 0);
	s->w_out = add_part(&s->m, WIDTH * LETTERS, 1, 0);
	s->b_out = add_part(&s->m, LETTERS, 0, 0);
	make_model(r, &s->m, r->o->seed * 1000);
	s->h = floats(WIDTH);
	s->u = floats(WIDTH);
	s->hw = floats(WIDTH);
	s->logits = floats(LETTERS);
	s->id = floats(1);
	CU(cuMemHostAlloc((void **)&s->letter, sizeof(*s->letter), 0));
	CU(cuMemHostAlloc((void **)&s->state, WIDTH * sizeof(*s->state), 0));
	CU(cuStreamCreate(&s->copies, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&s->ready, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&s->used, CU_EVENT_DISABLE_TIMING));
}

/* h = tanh(h w + table[letter]); the letter is already there. */
static void advance_letter(struct server *s)
{
	struct rank *r = s->r;
	CUdeviceptr table = part(&s->m, s->table), place = part(&s->m, s->place);
	struct linear l = { .rows = 1, .in = WIDTH, .out = WIDTH, .x = s->h, .w = part(&s->m, s->w), .y = s->hw };
	unsigned n = WIDTH, length = 1;

	over(r, K_embed, n, (void *[]){ &s->u, &table, &place, &s->id, &n, &n, &length });
	linear(r, &l);
	over(r, K_tanh_of_sum, n, (void *[]){ &s->h, &s->u, &s->hw, &n });
}

/*
 * Copies a letter of the client to the device by the stream of copies, which waits until the net has used the last
 * letter.
 */
static void read_letter(struct server *s, char c)
{
	const char *at = c == '\0' ? NULL : strchr(letters, c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);

	CU(cuEventSynchronize(s->ready));
	*s->letter = at != NULL ? (uint32_t)(at - letters) : (unsigned char)c % LETTERS;
	CU(cuStreamWaitEvent(s->copies, s->used, 0));
	CU(cuMemcpyHtoDAsync(s->id, s->letter, sizeof(*s->letter), s->copies));
	CU(cuEventRecord(s->ready, s->copies));
	CU(cuStreamWaitEvent(s->r->stream, s->ready, 0));
	advance_letter(s);
	CU(cuEventRecord(s->used, s->r->stream));
}

/* Returns the likeliest letter, which the net then reads. */
static char write_letter(struct server *s)
{
	struct rank *r = s->r;
	struct linear l = { .rows = 1, .in = WIDTH, .out = LETTERS, .x = s->h, .w = part(&s->m, s->w_out), .b = part(&s->m, s->b_out), .y = s->logits };
	unsigned rows = 1, columns = LETTERS;

	linear(r, &l);
	per_row(r, K_largest, 1, (void *[]){ &s->id, &s->logits, &rows, &columns });
	CU(cuMemcpyDtoHAsync(s->letter, s->id, sizeof(*s->letter), r->stream));
	CU(cuStreamSynchronize(r->stream));
	advance_letter(s);
	CU(cuEventRecord(s->used, r->stream));
	return (letters[*s->letter % LETTERS]);
}

static uint64_t hash_state(struct server *s)
{
	uint64_t h = hash_model(s->r, &s->m);

	CU(cuMemcpyDtoHAsync(s->state, s->h, WIDTH * sizeof(*s->state), s->r->stream));
	CU(cuStreamSynchronize(s->r->stream));
	return (hash_bytes(h, s->state, WIDTH * sizeof(*s->state)));
}

/* Returns false after the request to end. */
static bool answer_line(struct server *s, const char *line, FILE *out)
{
	char text[ANSWER + 1] = "";

	if (strcmp(line, "quit") == 0)
		return (false);
	for (const char *c = line; *c != '\0'; ++c)
		read_letter(s, *c);
	for (int i = 0; i < ANSWER; ++i)
		text[i] = write_letter(s);
	fprintf(out, "request %lu answer \"%s\" hash %016llx\n", ++s->requests, text, (unsigned long long)hash_state(s));
	fflush(out);
	return (true);
}

/* Answers line by line until the end of the file; returns false after the request to end. */
static bool converse_with(struct server *s, FILE *in, FILE *out)
{
	char line[LONGEST];

	while (fgets(line, sizeof(line), in) != NULL) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!answer_line(s, line, out))
			return (false);
	}
	return (true);
}

static void listen_at(struct server *s, const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool on = true;

	if (strlen(path) >= sizeof(a.sun_path))
		fail("%s: the path is too long", path);
	strcpy(a.sun_path, path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 16) != 0)
		fail("%s: %m", path);
	printf("ready\n");
	while (on) {
		int c = accept(fd, NULL, NULL);
		FILE *in, *out;

		if (c < 0)
			continue;
		in = fdopen(c, "r");
		out = fdopen(dup(c), "w");
		if (in == NULL || out == NULL)
			fail("%s: %m", path);
		on = converse_with(s, in, out);
		fclose(in);
		fclose(out);
	}
	close(fd);
	unlink(path);
}

static void serve_requests(struct rank *r)
{
	struct server s;

	if (r->ranks != 1)
		fail("a server has one rank");
	make_server(&s, r);
	/* Recorded, so that the first letter can wait for these events. */
	CU(cuEventRecord(s.ready, s.copies));
	CU(cuEventRecord(s.used, r->stream));
	if (r->o->socket != NULL)
		listen_at(&s, r->o->socket);
	else
		converse_with(&s, stdin, stdout);
	CU(cuStreamSynchronize(r->stream));
	CU(cuEventDestroy(s.ready));
	CU(cuEventDestroy(s.used));
	CU(cuStreamDestroy(s.copies));
	CU(cuMemFreeHost(s.letter));
	CU(cuMemFreeHost(s.state));
	free_model(&s.m);
}

int main(int argc, char **argv)
{
	return (run_ranks(argc, argv, 0, serve_requests));
}
