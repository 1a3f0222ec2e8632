// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done

/* Numbers of contexts and streams: each is that of a single context or stream, of a thread's default stream, too. */
#include "check.h"

#include <pthread.h>

static CUcontext ctx;

static void *ask_id(void *user)
{
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, user));
	return (NULL);
}

int main(void)
{
	unsigned long long context, context_again, legacy, legacy_again, mine, mine_again, other;
	pthread_t thread;
	CUstream s;
	CUgraph g;

	ctx = open_context();
	OK(cuCtxGetId(ctx, &context));
	OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	OK(pthread_create(&thread, NULL, ask_id, &other));
	OK(pthread_join(thread, NULL));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine_again));
	HOLDS(mine == mine_again && mine != other && mine != legacy && other != legacy);

	/* A capture is not harmed by the question. */
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuStreamGetId(s, &other));
	OK(cuStreamEndCapture(s, &g));
	HOLDS(other != legacy && other != mine);

	/* The primary context comes again, and is another context. */
	OK(cuDevicePrimaryCtxReset(0));
	ctx = open_context();
	OK(cuCtxGetId(ctx, &context_again));
	OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy_again));
	HOLDS(context != context_again && legacy != legacy_again);
	puts("done");
	return (0);
}
