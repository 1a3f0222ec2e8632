// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pmi.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	READ_SIZE = 64 << 10,
	FROM_HUB = PMI_MAX_PAIRS + 4096,
	ABORT_PATIENCE = 2000, /* milliseconds for a program that has aborted to end with a code of its own */
};

/* The limits that tasks get in answers: the same as those of Hydra and of Slurm. */
#define MAX_KVSNAME "256"
#define MAX_KEY "64"
#define MAX_VALUE "1024"

struct server {
	const struct task *task;
	int client;
	int hub;      /* -1 while there is no connection */
	bool lost;    /* the hub or a rank has left */
	bool aborted; /* the task has sent an abort command */
	int version;  /* of the task's wire, from its init command on */
	struct buffer from_client, from_hub;
	struct pairs pairs;	 /* of all tasks, as of the last fence, and of this task */
	struct pairs attributes; /* of the node; each task has a node of its own */
	struct buffer put;	 /* pairs since the last fence */
	bool fencing;
	struct reply fence;  /* the answer to the fence command, while fencing */
	bool answered;	     /* an answer to a question about names has come */
	struct buffer answer; /* the bytes of that answer */
};

/* --- answers --- */

static void send_or_end(struct server *s, struct reply *r)
{
	if (send_reply(r, s->client))
		_exit(0); /* the task is gone */
}

static void answer_ok(struct server *s, const struct command *c, const char *name)
{
	struct reply r;

	begin_reply(&r, c, name);
	add_number_field(&r, "rc", 0);
	send_or_end(s, &r);
}

/* Add the reason of an error. PMI-1 has no spaces in values, so they become underscores. */
static void add_reason(struct reply *r, const char *reason)
{
	char text[256];

	snprintf(text, sizeof(text), "%s", reason);
	for (char *at = text; r->version == 1 && (at = strchr(at, ' ')); ++at)
		*at = '_';
	add_number_field(r, "rc", -1);
	add_field(r, r->version == 1 ? "msg" : "errmsg", text);
}

static void answer_failure(struct server *s, const struct command *c, const char *name, const char *reason)
{
	struct reply r;

	begin_reply(&r, c, name);
	add_reason(&r, reason);
	send_or_end(s, &r);
}

static void answer_field(
	struct server *s, const struct command *c, const char *name, const char *key, const char *value)
{
	struct reply r;

	begin_reply(&r, c, name);
	add_number_field(&r, "rc", 0);
	add_field(&r, key, value);
	send_or_end(s, &r);
}

/* Answer with a value, or with an error if value is NULL. */
static void answer_value(struct server *s, const struct command *c, const char *name, const char *value)
{
	struct reply r;

	if (c->version == 1 && !value) {
		answer_failure(s, c, name, "no such key");
		return;
	}
	begin_reply(&r, c, name);
	add_number_field(&r, "rc", 0);
	if (c->version == 2)
		add_field(&r, "found", value ? "TRUE" : "FALSE");
	if (value)
		add_field(&r, "value", value);
	send_or_end(s, &r);
}

/* --- the hub --- */

static void leave_hub(struct server *s)
{
	if (s->hub >= 0)
		close(s->hub);
	s->hub = -1;
	s->lost = true;
}

static void tell_hub(struct server *s, enum frame_kind kind, const char *bytes, size_t n)
{
	struct buffer out = { 0 };

	begin_frame(&out, kind, n);
	add_bytes(&out, bytes, n);
	if (out.failed || write_all(s->hub, out.bytes, out.n))
		leave_hub(s);
	free_buffer(&out);
}

static void say_hello(struct server *s)
{
	struct buffer out = { 0 };

	add_number(&out, (uint32_t)s->task->rank);
	add_number(&out, (uint32_t)s->task->size);
	add_bytes(&out, s->task->hub.secret, PMI_SECRET_SIZE);
	tell_hub(s, FRAME_HELLO, out.bytes, out.n);
	free_buffer(&out);
}

/* Connect to the hub, unless there is a connection already, or the step has a single task. */
static int reach_hub(struct server *s)
{
	if (s->hub >= 0 || s->task->size == 1)
		return (0);
	s->hub = connect_to_place(&s->task->hub);
	if (s->hub < 0)
		return (-1);
	s->lost = false;
	say_hello(s);

	return (s->lost ? -1 : 0);
}

static void end_fence(struct server *s, const char *reason)
{
	if (!s->fencing)
		return;
	s->fencing = false;
	if (reason)
		add_reason(&s->fence, reason);
	else
		add_number_field(&s->fence, "rc", 0);
	send_or_end(s, &s->fence);
}

/* Kill the task's program, because an MPI program ends as a whole, as with Slurm. The steward ends the rest. */
static _Noreturn void end_program(const struct server *s)
{
	if (s->task->program > 0)
		kill(s->task->program, SIGKILL);
	_exit(0);
}

static void obey_frame(struct server *s, const struct frame *f)
{
	switch (f->kind) {
	case FRAME_FENCED:
		end_fence(s, put_encoded_pairs(&s->pairs, f->bytes, f->n) ? "the keys of all tasks are too many" : NULL);
		break;
	case FRAME_LOST:
		end_fence(s, "another task of the step has ended");
		break;
	case FRAME_ANSWER:
		s->answered = true;
		s->answer.n = 0;
		add_bytes(&s->answer, f->bytes, f->n);
		break;
	case FRAME_ABORT:
		end_program(s);
	default:
		leave_hub(s);
	}
}

/* Read from the hub once. */
static void hear_hub(struct server *s)
{
	struct frame f;
	ssize_t n;

	n = read_into(&s->from_hub, s->hub, READ_SIZE);
	if (n <= 0)
		leave_hub(s);
	while (s->hub >= 0 && (n = find_frame(&s->from_hub, FROM_HUB, &f)) != 0) {
		if (n < 0) {
			leave_hub(s);
			break;
		}
		obey_frame(s, &f);
		drop_bytes(&s->from_hub, (size_t)n);
	}
	if (s->hub < 0)
		end_fence(s, "srun is gone");
}

/* Ask the hub about a name. Returns the answer, which ends with a NUL, or NULL. */
static const char *ask_hub(struct server *s, enum frame_kind kind, const struct buffer *question)
{
	if (reach_hub(s) || s->hub < 0)
		return (NULL);
	s->answered = false;
	tell_hub(s, kind, question->bytes, question->n);
	while (s->hub >= 0 && !s->answered)
		hear_hub(s);
	add_bytes(&s->answer, "", 1);
	if (!s->answered || s->answer.failed || s->answer.n < 2)
		return (NULL);

	return (s->answer.bytes);
}

/* --- the start and the end --- */

static void obey_init(struct server *s, const struct command *c, const char *name)
{
	const char *version = find_field(c, "pmi_version");
	struct reply r;

	if (reach_hub(s)) {
		answer_failure(s, c, name, "srun cannot be reached");
		return;
	}
	begin_reply(&r, c, name);
	s->version = version && strcmp(version, "2") == 0 ? 2 : 1;
	add_number_field(&r, "pmi_version", s->version);
	add_number_field(&r, "pmi_subversion", s->version == 1 ? 1 : 0);
	add_number_field(&r, "rc", 0);
	send_or_end(s, &r);
}

static void obey_full_init(struct server *s, const struct command *c, const char *name)
{
	struct reply r;

	begin_reply(&r, c, name);
	add_number_field(&r, "pmi-version", 2);
	add_number_field(&r, "pmi-subversion", 0);
	add_number_field(&r, "rank", s->task->rank);
	add_number_field(&r, "size", s->task->size);
	add_number_field(&r, "appnum", 0);
	add_field(&r, "debugged", "FALSE");
	add_field(&r, "pmiverbose", "FALSE");
	add_number_field(&r, "rc", 0);
	send_or_end(s, &r);
}

static void obey_abort(struct server *s, const struct command *c, const char *name)
{
	(void)c;
	(void)name;
	if (s->hub >= 0)
		tell_hub(s, FRAME_ABORT, NULL, 0);
	/*
	 * The task is about to end with the code that it has chosen. Libraries that wait for the other tasks
	 * before they exit, as UCX does, would never end: hence ABORT_PATIENCE.
	 */
	s->aborted = true;
}

static void tell_limits(struct server *s, const struct command *c, const char *name)
{
	struct reply r;

	begin_reply(&r, c, name);
	add_number_field(&r, "rc", 0);
	add_field(&r, "kvsname_max", MAX_KVSNAME);
	add_field(&r, "keylen_max", MAX_KEY);
	add_field(&r, "vallen_max", MAX_VALUE);
	send_or_end(s, &r);
}

static void tell_size(struct server *s, const struct command *c, const char *name)
{
	char size[16];

	snprintf(size, sizeof(size), "%d", s->task->size);
	answer_field(s, c, name, "size", size);
}

static void tell_program_number(struct server *s, const struct command *c, const char *name)
{
	answer_field(s, c, name, "appnum", "0");
}

static void tell_step(struct server *s, const struct command *c, const char *name)
{
	answer_field(s, c, name, c->version == 1 ? "kvsname" : "jobid", s->task->step);
}

/* --- keys --- */

static void obey_put(struct server *s, const struct command *c, const char *name)
{
	const char *key = find_field(c, "key");
	const char *value = find_field(c, "value");

	if (key && value && s->task->size > 1)
		encode_pair(&s->put, key, value);
	if (!key || !value || s->put.failed || s->put.n > PMI_MAX_PAIRS ||
	    put_pair(&s->pairs, key, strlen(key), value, strlen(value)))
		answer_failure(s, c, name, "no room for the key");
	else
		answer_ok(s, c, name);
}

static void obey_get(struct server *s, const struct command *c, const char *name)
{
	const char *key = find_field(c, "key");

	answer_value(s, c, name, key ? get_value(&s->pairs, key) : NULL);
}

static void obey_fence(struct server *s, const struct command *c, const char *name)
{
	if (s->fencing) {
		answer_failure(s, c, name, "the task is in a fence already");
		return;
	}
	if (s->task->size == 1) {
		answer_ok(s, c, name);
		return;
	}
	begin_reply(&s->fence, c, name);
	s->fencing = true;
	if (s->hub >= 0)
		tell_hub(s, FRAME_FENCE, s->put.bytes, s->put.n);
	s->put.n = 0;
	if (s->hub < 0)
		end_fence(s, "srun is gone");
}

static void obey_get_job(struct server *s, const struct command *c, const char *name)
{
	const char *key = find_field(c, "key");
	char size[16];

	snprintf(size, sizeof(size), "%d", s->task->size);
	if (key && strcmp(key, "universeSize") == 0)
		answer_value(s, c, name, size);
	else if (key && strcmp(key, "hasNameServ") == 0)
		answer_value(s, c, name, "TRUE");
	else
		obey_get(s, c, name);
}

static void obey_put_node(struct server *s, const struct command *c, const char *name)
{
	const char *key = find_field(c, "key");
	const char *value = find_field(c, "value");

	if (!key || !value || put_pair(&s->attributes, key, strlen(key), value, strlen(value)))
		answer_failure(s, c, name, "no room for the key");
	else
		answer_ok(s, c, name);
}

static void obey_get_node(struct server *s, const struct command *c, const char *name)
{
	const char *key = find_field(c, "key");

	/* wait=TRUE would wait for another task of the node, and each task has a node of its own. */
	answer_value(s, c, name, key ? get_value(&s->attributes, key) : NULL);
}

/* --- names --- */

static const char *find_name(const struct command *c)
{
	const char *name = find_field(c, c->version == 1 ? "service" : "name");

	return (name ? name : "");
}

static void obey_name_change(struct server *s, const struct command *c, const char *name, enum frame_kind kind)
{
	const char *port = find_field(c, "port");
	struct buffer question = { 0 };
	const char *answer;

	encode_pair(&question, find_name(c), port ? port : "");
	answer = ask_hub(s, kind, &question);
	free_buffer(&question);
	if (answer && answer[0] == '1')
		answer_ok(s, c, name);
	else
		answer_failure(s, c, name, answer ? answer + 1 : "names need a step of several tasks");
}

static void obey_publish(struct server *s, const struct command *c, const char *name)
{
	obey_name_change(s, c, name, FRAME_PUBLISH);
}

static void obey_unpublish(struct server *s, const struct command *c, const char *name)
{
	obey_name_change(s, c, name, FRAME_UNPUBLISH);
}

static void obey_lookup(struct server *s, const struct command *c, const char *name)
{
	struct buffer question = { 0 };
	const char *answer;

	encode_pair(&question, find_name(c), "");
	answer = ask_hub(s, FRAME_LOOKUP, &question);
	free_buffer(&question);
	if (answer && answer[0] == '1')
		answer_field(s, c, name, c->version == 1 ? "port" : "value", answer + 1);
	else
		answer_failure(s, c, name, answer ? answer + 1 : "names need a step of several tasks");
}

/* --- dispatch --- */

static void obey_finalize(struct server *s, const struct command *c, const char *name)
{
	answer_ok(s, c, name);
}

static void refuse_command(struct server *s, const struct command *c, const char *name)
{
	const char *command = find_field(c, "cmd");
	char reason[128];

	if (!command)
		command = find_field(c, "mcmd");
	snprintf(reason, sizeof(reason), "singularity: srun --mpi=pmi2 has no %.40s in a protected job",
		command ? command : "such command");
	answer_failure(s, c, name, reason);
}

static const struct row {
	const char *command;
	const char *answer;
	void (*obey)(struct server *s, const struct command *c, const char *answer);
} rows1[] = {
	{ "init", "response_to_init", obey_init },
	{ "finalize", "finalize_ack", obey_finalize },
	{ "abort", "", obey_abort },
	{ "get_maxes", "maxes", tell_limits },
	{ "get_universe_size", "universe_size", tell_size },
	{ "get_appnum", "appnum", tell_program_number },
	{ "get_my_kvsname", "my_kvsname", tell_step },
	{ "put", "put_result", obey_put },
	{ "get", "get_result", obey_get },
	{ "barrier_in", "barrier_out", obey_fence },
	{ "publish_name", "publish_result", obey_publish },
	{ "unpublish_name", "unpublish_result", obey_unpublish },
	{ "lookup_name", "lookup_result", obey_lookup },
	{ "create_kvs", "newkvs", refuse_command },
	{ "destroy_kvs", "kvs_destroyed", refuse_command },
	{ "getbyidx", "getbyidx_results", refuse_command },
	{ "spawn", "spawn_result", refuse_command },
}, rows2[] = {
	{ "fullinit", "fullinit-response", obey_full_init },
	{ "finalize", "finalize-response", obey_finalize },
	{ "abort", "", obey_abort },
	{ "job-getid", "job-getid-response", tell_step },
	{ "kvs-put", "kvs-put-response", obey_put },
	{ "kvs-get", "kvs-get-response", obey_get },
	{ "kvs-fence", "kvs-fence-response", obey_fence },
	{ "info-getjobattr", "info-getjobattr-response", obey_get_job },
	{ "info-putnodeattr", "info-putnodeattr-response", obey_put_node },
	{ "info-getnodeattr", "info-getnodeattr-response", obey_get_node },
	{ "name-publish", "name-publish-response", obey_publish },
	{ "name-unpublish", "name-unpublish-response", obey_unpublish },
	{ "name-lookup", "name-lookup-response", obey_lookup },
	{ "job-connect", "job-connect-response", refuse_command },
	{ "job-disconnect", "job-disconnect-response", refuse_command },
	{ "ring", "ring-response", refuse_command },
	{ "spawn", "spawn-response", refuse_command },
};

enum { N_ROWS1 = sizeof(rows1) / sizeof(rows1[0]), N_ROWS2 = sizeof(rows2) / sizeof(rows2[0]) };

static void obey_command(struct server *s, const struct command *c)
{
	const struct row *table = c->version == 1 ? rows1 : rows2;
	const size_t n = c->version == 1 ? N_ROWS1 : N_ROWS2;
	const char *name = find_field(c, "cmd");
	char answer[64];

	if (!name)
		name = find_field(c, "mcmd");
	if (!name)
		_exit(1); /* the bytes are no PMI command */
	for (size_t i = 0; i < n; ++i) {
		if (strcmp(table[i].command, name) == 0) {
			table[i].obey(s, c, table[i].answer);
			return;
		}
	}
	snprintf(answer, sizeof(answer), "%.40s%s", name, c->version == 1 ? "_result" : "-response");
	refuse_command(s, c, answer);
}

/* Carry out the first command of the task that has come. Returns whether there was a command. */
static bool take_command(struct server *s)
{
	struct command c;
	char *text = NULL;
	size_t length = 0;
	const ssize_t n = find_command(s->from_client.bytes, s->from_client.n, s->version, &text, &length);

	if (n == 0)
		return (false);
	if (n < 0 || memchr(text, '\0', length))
		_exit(1);
	text = strndup(text, length);
	if (!text || parse_command(&c, text, s->version))
		_exit(1);
	drop_bytes(&s->from_client, (size_t)n);
	obey_command(s, &c);
	free(text);

	return (true);
}

/* Read from the task once, and carry out its commands. The server ends with the task's last descriptor. */
static void hear_client(struct server *s)
{
	if (read_into(&s->from_client, s->client, READ_SIZE) <= 0)
		_exit(0);
	while (s->from_client.n > 0 && take_command(s))
		;
}

/*
 * Put the mapping of ranks to nodes, in Hydra's format, with a node for each rank. Ranks of the same node would
 * share memory, and the image of a single task cannot hold shared memory.
 */
static void put_mapping(struct server *s)
{
	static const char key[] = "PMI_process_mapping";
	char mapping[64];
	const int n = snprintf(mapping, sizeof(mapping), "(vector,(0,%d,1))", s->task->size);

	put_pair(&s->pairs, key, sizeof(key) - 1, mapping, (size_t)n);
}

_Noreturn void serve_task(const struct task *t, int client)
{
	struct server s = { .task = t, .client = client, .hub = -1, .version = 1 };

	put_mapping(&s);
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = s.client, .events = POLLIN },
			{ .fd = s.hub, .events = POLLIN }, /* poll ignores -1 */
		};

		const int events = poll(fds, 2, s.aborted ? ABORT_PATIENCE : -1);

		if (events < 0)
			continue;
		if (events == 0)
			end_program(&s);
		if (fds[1].revents)
			hear_hub(&s);
		else if (fds[0].revents)
			hear_client(&s);
	}
}
