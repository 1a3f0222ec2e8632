// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * PMI for the tasks of `srun --mpi=pmi2`: how the processes of an MPI program learn their
 * ranks and each other's addresses. Slurm's own server is slurmstepd, outside of the
 * capsule, and a connection to slurmstepd cannot be captured. So the real srun runs with
 * --mpi=none, and two processes take the place of slurmstepd and srun:
 *
 *	server  a process beside each task, child of the task's steward, captured and restored
 *	        with the task. The task has a socketpair to the server, in PMI_FD
 *	hub     a child of the step's sing-srun, captured with the batch script. The servers
 *	        connect to the hub by TCP in the network of the capsules, which moves with them
 *
 *	task ──PMI-1 or PMI-2── server ──frames──┐
 *	task ──PMI-1 or PMI-2── server ──frames──┴── hub
 *
 * Frames are sent only to carry out a command of the task. MPI programs send commands only
 * while they start and when they end.
 *
 * # Between server and hub
 *
 * A frame is its length in four bytes and its kind in a byte, in network order, and as many
 * bytes as the length says. The first frame of a server is HELLO with the secret that only
 * the step's tasks know; before HELLO the hub reads no more bytes than HELLO has.
 *
 *	server                                    hub
 *	──────                                    ───
 *	HELLO rank, size, secret ───────────────►
 *	FENCE the pairs put since the last ─────► waits until all ranks have sent FENCE
 *	                                     ◄──  FENCED the pairs of all ranks
 *	PUBLISH, UNPUBLISH name, port ──────────►
 *	LOOKUP name ────────────────────────────►
 *	                                     ◄──  ANSWER 1 port | 0 reason
 *	ABORT ──────────────────────────────────►
 *	                                     ◄──  ABORT, to all other servers
 *	closes ─────────────────────────────────► no fence can be complete any more
 *	                                     ◄──  LOST, to each server that has sent FENCE, or will
 *
 * For `srun --mpi=pmix` the server is sing-pmix (../pmix), and the hub is the same:
 *
 *	COLLECT request, signature, data ───────► waits until all members in the signature have sent the same
 *	                                     ◄──  COLLECTED request, status, context, the data of all members
 *	ASK request, rank ──────────────────────► waits until that rank has connected
 *	                                     ◄──  ASKED asker, request, to the server of that rank
 *	TELL asker, request, status, keys ──────►
 *	                                     ◄──  TOLD request, status, keys, to the asker
 *
 * A signature is a kind, a number of ranks, the ranks, and a name; no ranks stands for all ranks. context is a number
 * that no other collective of the step has.
 */
#ifndef SING_PMI_PMI_H
#define SING_PMI_PMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The variable with the hub's address, for a task's warden. sing-srun sets it in the call,
 * and proxyd keeps it only where the step uses PMI (proxyd/srun/mpi.go has the same name).
 */
#define PMI_VARIABLE "SINGULARITY_SLURM_PMI"

/* The same, where the step uses PMIx. */
#define PMIX_VARIABLE "SINGULARITY_SLURM_PMIX"

/* Where sing-pmix writes the task's environment to. */
enum { PMIX_ENVIRONMENT_FD = 3 };

enum {
	PMI_SECRET_SIZE = 32,	  /* hexadecimal digits */
	PMI_NAME_SIZE = 64,	  /* of a step, with its NUL */
	PMI_MAX_FIELDS = 64,	  /* of a command */
	PMI_MAX_COMMAND = 1 << 20, /* bytes of a command */
	PMI_MAX_PAIRS = 64 << 20,  /* bytes of the pairs of a step */
	PMI_MAX_RANKS = 1 << 16,
};

/* --- buffer.c --- */

/* A buffer grows as bytes are added. After a failed allocation it stays as it is, with failed set. */
struct buffer {
	char *bytes;
	size_t n;
	size_t room;
	bool failed;
};

/* Add n bytes. */
void add_bytes(struct buffer *b, const void *bytes, size_t n);

/* Add a text without its NUL. */
void add_text(struct buffer *b, const char *text);

/* Add four bytes in network order. */
void add_number(struct buffer *b, uint32_t number);

/* The four bytes at p. */
uint32_t number_at(const char *p);

/* Remove the first n bytes. */
void drop_bytes(struct buffer *b, size_t n);

void free_buffer(struct buffer *b);

/* Write all bytes to a blocking descriptor. Returns -1 with errno. */
int write_all(int fd, const char *bytes, size_t n);

/*
 * Read once and add the bytes, at most limit. Returns the number of bytes, 0 at the end of file, -1 with
 * errno.
 */
ssize_t read_into(struct buffer *b, int fd, size_t limit);

/* --- command.c --- */

struct field {
	const char *key;
	const char *value; /* "" if the field has no value */
};

/* A command of a task. Keys and values point into the text that was parsed. */
struct command {
	int version; /* of the wire: 1 or 2 */
	size_t n;
	struct field fields[PMI_MAX_FIELDS];
};

/*
 * Find the first command in n bytes. Returns how many bytes it takes, with the text of the command in
 * *text and *length, 0 if the command is not complete, or -1 if the bytes are no command.
 */
ssize_t find_command(char *bytes, size_t n, int version, char **text, size_t *length);

/* Parse a command's text, which ends with a NUL and is changed. Returns -1 if the text is no command. */
int parse_command(struct command *c, char *text, int version);

/* The value of a field, or NULL. */
const char *find_field(const struct command *c, const char *key);

/* An answer that is being put together. */
struct reply {
	int version;
	struct buffer text;
};

/* Begin an answer to c. */
void begin_reply(struct reply *r, const struct command *c, const char *name);

void add_field(struct reply *r, const char *key, const char *value);

void add_number_field(struct reply *r, const char *key, long value);

/* Send the answer and free its memory. Returns -1 if the task has closed the connection. */
int send_reply(struct reply *r, int fd);

/* --- pairs.c --- */

struct pair {
	char *key;
	char *value;
};

/* A table of keys and values, by hash. */
struct pairs {
	struct pair *slots;
	size_t room;  /* a power of two, or 0 */
	size_t n;
	size_t bytes; /* of all keys and values */
};

/* Put a pair, in place of the earlier pair of that key. Returns -1 if there is no room. */
int put_pair(struct pairs *p, const char *key, size_t key_size, const char *value, size_t value_size);

/* The value of a key, or NULL. */
const char *get_value(const struct pairs *p, const char *key);

/* Remove the pair of a key. Returns whether there was such a pair. */
bool remove_pair(struct pairs *p, const char *key);

void free_pairs(struct pairs *p);

/* Add a pair in the form of frames. */
void encode_pair(struct buffer *b, const char *key, const char *value);

/* Put all pairs of a frame. Returns -1 if the bytes are no pairs, or there is no room. */
int put_encoded_pairs(struct pairs *p, const char *bytes, size_t n);

/* --- frame.c --- */

enum frame_kind {
	FRAME_HELLO = 1,
	FRAME_FENCE = 2,
	FRAME_PUBLISH = 3,
	FRAME_UNPUBLISH = 4,
	FRAME_LOOKUP = 5,
	FRAME_ABORT = 6,
	FRAME_COLLECT = 7,
	FRAME_ASK = 8,
	FRAME_TELL = 9,

	FRAME_FENCED = 16,
	FRAME_ANSWER = 17,
	FRAME_LOST = 18,
	FRAME_COLLECTED = 19,
	FRAME_ASKED = 20,
	FRAME_TOLD = 21,

	/* of terminals (../terminal.h) */
	FRAME_WINDOW = 32,
	FRAME_KEYS = 33,
};

enum { FRAME_HEADER = 5, HELLO_SIZE = 8 + PMI_SECRET_SIZE };

/* The status in COLLECTED, TELL and TOLD; any other is a failure. */
enum { STATUS_DONE = 0, STATUS_LOST = 1, STATUS_FULL = 2 };

/* The kinds of collectives. */
enum {
	COLLECT_FENCE = 1,
	COLLECT_CONNECT = 2,
	COLLECT_DISCONNECT = 3,
	COLLECT_GROUP = 4,
	COLLECT_LEAVE_GROUP = 5,
	COLLECT_LAYOUT = 6,
};

struct frame {
	enum frame_kind kind;
	const char *bytes;
	size_t n;
};

/* Begin a frame of n bytes. */
void begin_frame(struct buffer *b, enum frame_kind kind, size_t n);

/*
 * Find the first frame in b, of at most max bytes. Returns how many bytes it takes with its header, 0 if the
 * frame is not complete, -1 if the frame is longer than max.
 */
ssize_t find_frame(const struct buffer *b, size_t max, struct frame *f);

/* The address and secret of a hub, from the variable: "ADDRESS:PORT:SECRET". */
struct hub_place {
	uint32_t address; /* in network order */
	uint16_t port;	  /* in network order */
	char secret[PMI_SECRET_SIZE + 1];
};

/* Parse the variable. Returns -1 if its value has another form. */
int parse_place(struct hub_place *p, const char *text);

/* Connect to the place, waiting for the connection. Returns the socket, or -1 with errno. */
int connect_to_place(const struct hub_place *p);

/* Whether both have the same PMI_SECRET_SIZE bytes. */
bool same_secret(const char *a, const char *b);

/* --- server.c --- */

/* The task of a server. */
struct task {
	struct hub_place hub;
	int rank;
	int size;
	char step[PMI_NAME_SIZE];
	pid_t program; /* is killed when another task of the step aborts; 0 if the task has no program */
	bool pmix;     /* is served by sing-pmix */
};

/* Serve a task until the task ends. client is the server's end of the socketpair, and its only descriptor. */
_Noreturn void serve_task(const struct task *t, int client);

/* --- hub.c --- */

/*
 * Listen for servers at this capsule's address. Returns the socket, with its place in p, or -1 with errno.
 */
int listen_for_servers(struct hub_place *p);

/* Serve the servers of a step, until parent is at its end of file. */
_Noreturn void run_hub(int listener, int parent, const char *secret);

#endif
