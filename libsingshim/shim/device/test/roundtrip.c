// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 *	roundtrip calls SEED N     N times each call that goes to the server, over descriptor 3
 *	roundtrip find             checks lines "NAME VERSION THREAD SYMBOL" of stdin: the symbol that is found
 *	roundtrip missed           calls that are not covered
 *	roundtrip null             arguments that must not be NULL
 *	roundtrip local            calls that are answered without a server
 */
#include "roundtrip.h"

#include "find.h"
#include "gen_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* Whether this is the first round, in which each array and string is there and empty. */
static bool empty;

uint64_t number(void)
{
	/* xorshift: any full period will do. */
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}

void fill(void *to, size_t n)
{
	for (size_t i = 0; i < n; ++i)
		((unsigned char *)to)[i] = (unsigned char)(number() >> 32);
}

void letters(char *to, size_t n)
{
	for (size_t i = 0; i < n; ++i)
		to[i] = (char)('a' + (number() >> 32) % 26);
	to[n] = 0;
}

bool often(void)
{
	return (number() >> 32) % 4 != 0 || empty;
}

unsigned int pick_length(unsigned int limit)
{
	return empty ? 0 : (unsigned int)((number() >> 32) % limit);
}

static uint64_t hash_bytes(const unsigned char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull;

	while (n-- > 0)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

void say_begin(const char *symbol, bool per_thread)
{
	printf("%s%s:", symbol, per_thread ? "*" : "");
}

void say_field(const char *name, const void *value, size_t size)
{
	uint64_t n = 0;

	if (size > 8) {
		printf(" %s=%016llx", name, (unsigned long long)hash_bytes(value, size));
		return;
	}
	memcpy(&n, value, size);
	printf(" %s=%llx", name, (unsigned long long)n);
}

void say_array(const char *name, const void *elements, uint64_t count, size_t size)
{
	if (elements == NULL)
		printf(" %s=none", name);
	else
		printf(" %s=%llu*%016llx", name, (unsigned long long)count, (unsigned long long)hash_bytes(elements, count * size));
}

void say_wanted(const char *name, bool is)
{
	printf(" %s%s", name, is ? "?" : "!");
}

void say_result(int r)
{
	printf(" -> %d", r);
}

void say_end(void)
{
	printf("\n");
}

static int find_names(void)
{
	char name[128], want[128];
	int version, per_thread, wrong = 0;

	while (scanf("%127s %d %d %127s", name, &version, &per_thread, want) == 4) {
		bool known;
		void *found = sing_find(name, version, per_thread, &known);
		void *wish = strcmp(want, "-") == 0 ? NULL : sing_find_symbol(want);

		if (found != wish || (wish == NULL && strcmp(want, "-") != 0) || (found != NULL && !known)) {
			printf("%s %d %d: not %s\n", name, version, per_thread, want);
			wrong = 1;
		}
	}
	/* A symbol's own function, not only some function. */
	if (sing_find_symbol("cuMemAlloc_v2") != (void *)cuMemAlloc_v2 || sing_find_symbol("cuMemAlloc_v9") != NULL ||
	    sing_find_symbol("cuMemsetD8Async_ptsz") != (void *)cuMemsetD8Async_ptsz || sing_find_symbol("") != NULL) {
		printf("sing_find_symbol finds something else\n");
		wrong = 1;
	}
	return wrong;
}

static void call_missed(void)
{
	for (int i = 0; i < 2; ++i) {
		static const char *const symbols[] = { "cuMipmappedArrayCreate", "cuMemcpyBatchAsync_v2_ptsz", "ncclCommResume", "nvmlDeviceSetEccMode" };

		for (size_t k = 0; k < sizeof(symbols) / sizeof(*symbols); ++k) {
			int (*call)(void) = (int (*)(void))sing_find_symbol(symbols[k]);

			printf("%s %d\n", symbols[k], call());
		}
	}
}

static void call_with_null(void)
{
	char name[4];
	size_t n = (size_t)1 << 40;
	CUgraphNode node = NULL;

	printf("%d\n", cuMemAlloc_v2(NULL, 1));
	printf("%d\n", cuDeviceGetName(name, -1, 0));
	printf("%d\n", cuDeviceGetName(NULL, 4, 0));
	printf("%d\n", cuGraphGetNodes(NULL, NULL, NULL));
	printf("%d\n", cuGraphGetNodes(NULL, &node, &n));
	printf("%d\n", cuModuleGetFunction((CUfunction *)name, NULL, NULL));
	printf("%d\n", ncclGetVersion(NULL));
	printf("%d\n", nvmlDeviceGetName(NULL, NULL, 8));
}

static void call_local(void)
{
	const char *text = "?", *name = "?";
	void *function = &text;
	int status = -1;

	printf("%d", cuGetErrorString(2, &text));
	printf(" %d", cuGetErrorName(2, &name));
	printf(" %s: %s\n", name, text);
	printf("%d", cuGetErrorString(123456, &text));
	printf(" %s\n", text == NULL ? "none" : text);
	printf("%s; %s; %s\n", ncclGetErrorString(7), pncclGetErrorString(0), ncclGetErrorString(99));
	printf("%s; %s\n", nvmlErrorString(3), nvmlErrorString(-1));
	ncclResetDebugInit();
	printf("%d", cuGetProcAddress_v2("cuMemsetD8", &function, 12040, 2, &status));
	printf(" %d %d\n", status, function == (void *)cuMemsetD8_v2_ptds);
	printf("%d", cuGetProcAddress_v2("cuMemsetD8", &function, 12040, 1, NULL));
	printf(" %d\n", function == (void *)cuMemsetD8_v2);
	printf("%d", cuGetProcAddress_v2("cuLibraryLoadData", &function, 11080, 0, &status));
	printf(" %d %d\n", status, function == NULL);
	printf("%d", cuGetProcAddress_v2("cuMemsetD9", &function, 12000, 0, &status));
	printf(" %d %d\n", status, function == NULL);
	printf("%d\n", cuGetProcAddress_v2("cuMemsetD8", &function, 12000, 3, &status));
	printf("%d\n", cuGetProcAddress("cuMemsetD9", &function, 11030, 0));
	printf("%d\n", cuGetProcAddress("cuGetProcAddress", &function, 12000, 0));
	printf("%d\n", function == (void *)cuGetProcAddress_v2);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "calls") == 0 && argc == 4) {
		state = strtoull(argv[2], NULL, 10) | 1;
		const long rounds = strtol(argv[3], NULL, 10);

		for (long n = rounds; n > 0; --n) {
			empty = n == rounds;
			roundtrip();
		}
		return 0;
	}
	if (strcmp(what, "find") == 0)
		return find_names();
	if (strcmp(what, "missed") == 0)
		call_missed();
	else if (strcmp(what, "null") == 0)
		call_with_null();
	else if (strcmp(what, "local") == 0)
		call_local();
	else
		return 2;
	return 0;
}
