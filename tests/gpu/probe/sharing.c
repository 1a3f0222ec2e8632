// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The costs of contexts: their turns, and their memory. */
#include "probe.h"

enum { TURNS = 100 };

static void queue_spin(CUfunction spin, unsigned long long n, CUdeviceptr at, CUstream s)
{
	void *params[] = { &n, &at };

	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

/* How many rounds of the kernel take a millisecond. */
static unsigned long long rounds_of_ms(CUfunction spin, CUdeviceptr at)
{
	unsigned long long n = 1000;

	for (;;) {
		double t;

		queue_spin(spin, n, at, NULL);
		OK(cuCtxSynchronize());
		t = now_us();
		queue_spin(spin, n, at, NULL);
		OK(cuCtxSynchronize());
		t = now_us() - t;
		if (t > 1000)
			return ((unsigned long long)((double)n * 1000 / t));
		n *= 2;
	}
}

/* Turns of two streams, each of its context: a kernel here, then a kernel there, waited for in between or not. */
static double take_turns(CUcontext *c, CUfunction *spin, CUdeviceptr *at, CUstream *s, unsigned long long n, bool wait)
{
	const double t = now_us();

	for (int i = 0; i < TURNS; ++i) {
		OK(cuCtxSetCurrent(c[i % 2]));
		queue_spin(spin[i % 2], n, at[i % 2], s[i % 2]);
		if (wait)
			OK(cuStreamSynchronize(s[i % 2]));
	}
	for (int k = 0; k < 2; ++k) {
		OK(cuCtxSetCurrent(c[k]));
		OK(cuStreamSynchronize(s[k]));
	}
	return (now_us() - t);
}

void contexts(void)
{
	CUcontext two[2], same[2];
	CUfunction spin[2], spin_same[2];
	CUdeviceptr at[2], at_same[2];
	CUstream s[2], s_same[2];
	CUdevice dev;
	unsigned long long n;
	double one;

	same[0] = same[1] = begin();
	OK(cuDeviceGet(&dev, 0));
	for (int k = 0; k < 2; ++k) {
		spin_same[k] = kernel("spin");
		OK(cuMemAlloc(&at_same[k], 64));
		OK(cuStreamCreate(&s_same[k], CU_STREAM_NON_BLOCKING));
	}
	n = rounds_of_ms(spin_same[0], at_same[0]);
	for (int k = 0; k < 2; ++k) {
		OK(cuCtxCreate(&two[k], 0, dev));
		OK(cuModuleGetFunction(&spin[k], load_kernels(), "spin"));
		OK(cuMemAlloc(&at[k], 64));
		OK(cuStreamCreate(&s[k], CU_STREAM_NON_BLOCKING));
	}
	take_turns(two, spin, at, s, n, true); /* warm */
	one = take_turns(same, spin_same, at_same, s_same, n, true);
	answer("kernels of 1 ms, each waited for, two streams of one context", one / TURNS, "us each");
	answer("the same with two contexts", take_turns(two, spin, at, s, n, true) / TURNS, "us each");
	answer("not waited for, two streams of one context", take_turns(same, spin_same, at_same, s_same, n, false) / TURNS, "us each");
	answer("the same with two contexts, not waited for", take_turns(two, spin, at, s, n, false) / TURNS, "us each");
}

static double used_mib(void)
{
	size_t left, all;

	OK(cuMemGetInfo(&left, &all));
	return ((double)(all - left) / (1 << 20));
}

void footprint(void)
{
	enum { CONTEXTS = 3, MODULES = 16 };
	const CUcontext first = begin();
	CUdevice dev;
	CUcontext c;
	double before = used_mib(), t, load;

	OK(cuDeviceGet(&dev, 0));
	answer("in use with one context", before, "MiB");
	t = now_us();
	for (int i = 0; i < CONTEXTS; ++i)
		OK(cuCtxCreate(&c, 0, dev));
	answer("to make a further context", (now_us() - t) / CONTEXTS / 1000, "ms");
	OK(cuCtxSetCurrent(first));
	answer("memory of a further context", (used_mib() - before) / CONTEXTS, "MiB");
	load_kernels();
	before = used_mib();
	load = now_us();
	for (int i = 0; i < MODULES; ++i)
		load_kernels();
	answer("to load a small module", (now_us() - load) / MODULES, "us");
	answer("memory of a small module", (used_mib() - before) / MODULES, "MiB");
}
