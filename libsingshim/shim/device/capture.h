// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Stream capture: which streams capture, and on which nodes each node depends.
 *
 * Only the shim knows of captures. The server has a graph, made when a capture began, and is sent each captured
 * call inside of a message "captured", with the handle of the node that the call becomes and the handles of the
 * nodes before. The server does not know that a stream captures. So a program's question whether a stream
 * captures costs no message, and the order in which threads capture is the order of a single lock, which is
 * held from the check whether a stream captures until the node is made. A captured call waits for the server's
 * answer: a wrong call is refused where CUDA refuses the call.
 *
 *	capture	   from cuStreamBeginCapture to cuStreamEndCapture
 *	├─ strand  a stream of the capture: the stream that began the capture, or a stream that
 *	│          waited for an event of the capture. The stream's next node depends on the
 *	│          strand's nodes
 *	└─ mark    an event that was last recorded in the capture, with the strand's nodes of that
 *	           moment. A mark outlives its capture: no work ever completes an event that was
 *	           last recorded in a capture
 *
 * A capture is joined if each of its last nodes, the nodes that no later node depends on, is among the nodes of
 * the stream that began the capture. A call that cannot be captured makes a capture invalid; then each call on
 * its streams returns an error, until the capture has ended.
 *
 * capture.c knows no messages. capture_watch.c looks at each message that leaves while a stream captures,
 * capture_calls.c has the calls of the program.
 */
#ifndef SING_DEVICE_CAPTURE_H
#define SING_DEVICE_CAPTURE_H

#include "gen_abi.h"

#include "context.h"

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)


/*
 * The number of captures under way and of events last recorded in a capture. While the number is 0, no message
 * needs the check of sing_capture_watch.
 */
extern _Atomic unsigned int sing_capture_count;

static inline bool sing_captures(void)
{
	return atomic_load_explicit(&sing_capture_count, memory_order_relaxed) != 0;
}

struct sing_count;

/* A message that is about to be sent; counts are the keys for which the barrier counts the message. */
struct sing_message {
	uint32_t op;
	const void *in;
	size_t n;
	const struct sing_count *counts;
	unsigned int k;
	void *out;
	size_t room, *got;
};

/*
 * Check a message before it is sent. Returns whether the message was dealt with here; then *result is the
 * call's result, and out and *got are as sing_call leaves them. Called for every message while
 * sing_captures().
 */
bool sing_capture_watch(const struct sing_message *m, int *result);

/* Whether a message with counts was ever captured. */
bool sing_captured_counts(void);

/*
 * The number of the capture in which work for the stream becomes a node now, 0 if there is none. Stream 0 is the legacy
 * stream, even if the caller's default is a stream of each thread.
 */
unsigned long long sing_capture_id(CUstream stream);

/*
 * Work for the stream by a message that sing_capture_watch does not see: CUDA_SUCCESS, or the call's error. waits: the
 * program waits for the work, which cannot be captured.
 */
CUresult sing_capture_allows(CUstream stream, bool waits);

/* Work for the stream that cannot be captured: CUDA_SUCCESS, unless the stream captures. */
CUresult sing_capture_refuse(CUstream stream, bool per_thread);

/* A call that CUDA holds to be unsafe in captures of some modes, before its messages: CUDA_SUCCESS, or the call's error. */
CUresult sing_capture_allows_unsafe(void);

/*
 * The library itself waits for contexts in this thread, from a call with true until a call with false: such a wait
 * invalidates no capture. Captured work has not begun, so that the wait is only for other work.
 */
void sing_capture_own_wait(bool begins);

/* The rest is for capture*.c. The lock of all captures: */
void sing_capture_lock(void);
void sing_capture_unlock(void);

/* A stream by which strands are found: per-thread streams have a key for each thread. */
uint64_t sing_capture_key(CUstream stream, bool per_thread);
#define SING_LEGACY_KEY 1

static inline CUcontext sing_context_current(void)
{
	return sing_current == NULL ? NULL : (CUcontext)(uintptr_t)sing_current->handle;
}

/* The number of the calling thread, which no other thread ever has. */
uint64_t sing_capture_thread(void);

/* A set of nodes. edges has an element for each node, all zeros: only the plain kind of dependency is supported. */
struct sing_nodes {
	CUgraphNode *at;
	CUgraphEdgeData *edges;
	size_t n, room;
};

bool sing_nodes_has(const struct sing_nodes *s, CUgraphNode node);
bool sing_nodes_reserve(struct sing_nodes *s, size_t more);
bool sing_nodes_add(struct sing_nodes *s, const CUgraphNode *nodes, size_t n);
void sing_nodes_drop(struct sing_nodes *s, CUgraphNode node);
void sing_nodes_clear(struct sing_nodes *s);

struct sing_capture {
	unsigned int users; /* strands and marks */
	unsigned long long id;
	CUgraph graph;
	bool ours;	    /* the shim made the graph; the program gets it at the end */
	bool invalid, ended;
	int mode;
	CUcontext context;  /* current where the capture began */
	uint64_t thread, origin;
	struct sing_nodes leaves;
};

struct sing_strand {
	struct sing_strand *next;
	struct sing_capture *in;
	uint64_t stream;
	bool blocking;	    /* the legacy stream would wait for the stream */
	struct sing_nodes nodes;
};

/* The functions below are called with the lock held, and return CUDA's results. */

struct sing_strand *sing_strand_of(uint64_t stream);

/*
 * Begin a capture. start has the mode, context, graph and ours of the new capture; nodes are the nodes of graph on
 * which its first node depends.
 */
CUresult sing_capture_begin(uint64_t stream, bool blocking, const struct sing_capture *start, const CUgraphNode *nodes, size_t n);

/*
 * End a capture. *graph is the capture's graph, also if the result is an error and the graph is ours; NULL if
 * the capture has not ended.
 */
CUresult sing_capture_end(uint64_t stream, CUgraph *graph, bool *ours);

/* A call on these strands of a capture has become a node. */
CUresult sing_capture_add(struct sing_strand *const *s, size_t n, CUgraphNode node);

/* cuStreamUpdateCaptureDependencies. */
CUresult sing_capture_update(struct sing_strand *s, const CUgraphNode *nodes, size_t n, unsigned int flags);

/* An event is recorded by a stream; *captured: the call was captured, and no message is needed. */
CUresult sing_capture_record(uint64_t event, uint64_t stream, bool *captured);

/*
 * A stream waits for an event; *captured: the call was captured, and no message is needed. blocking is called
 * if the stream enters the capture: it tells whether the legacy stream waits for the stream.
 */
CUresult sing_capture_wait(uint64_t stream, uint64_t event, bool (*blocking)(uint64_t), bool *captured);

/* The program asks for the event; the event is destroyed. */
CUresult sing_capture_ask_event(uint64_t event);
void sing_capture_drop_event(uint64_t event);

/* The stream is destroyed. Returns a graph of ours that no strand or mark refers to any more, or NULL. */
CUgraph sing_capture_drop_stream(uint64_t stream);

/* The legacy stream of this context is used: the stream would wait for strands. */
CUresult sing_capture_legacy(CUcontext context, bool harmless);

/* The program waits for all of this context's work. */
CUresult sing_capture_wait_all(CUcontext context);

/* The thread makes a call that is no work of a stream, as cuMemAlloc. */
CUresult sing_capture_unsafe(void);

/* Set the thread's mode; returns the mode before. */
int sing_capture_mode(int mode);
int sing_capture_thread_mode(void);

/* Whether the thread is in a wait of the library. */
bool sing_capture_is_own_wait(void);

void sing_capture_invalidate(struct sing_capture *c);

#pragma GCC visibility pop

#endif
