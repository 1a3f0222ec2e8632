// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * cuGetExportTable: libcudart (12.x), which is linked into most programs, calls it before any other function of the
 * driver. The tables have no public header; this was written for interoperability, from public descriptions of the
 * tables of other implementations of the driver (ZLUDA's, above all), and works without any of the vendor's code. No
 * other part of the shim needs this file: `make EXPORT_TABLES=no` leaves the file out, and such programs then end with
 * an error at their first call.
 *
 * A table is an array of elements of 8 bytes: first the table's size, except in CONTEXT_LOCAL_STORAGE, then functions.
 * A call of a function that is not known here is refused, and named by its table and place, as is a table by its id.
 *
 *	CUDART_INTERFACE	[1] [6] [8] load a fatbin, [2] a device's primary context
 *	TOOLS_RUNTIME_HOOKS	[2] [6] memory in which a profiler would note which functions to call
 *	TOOLS_TLS		[2] the current context
 *	CONTEXT_STREAM		[4] a context's number, [39] a stream's, [51] the stream behind a handle: for cuBLAS
 *	TOOLS_MODULE		[7] tell each function of a module: for cuFFT
 *	DEVICE_GROUPS		[4] how a device's multiprocessors are grouped, two lists, [13] free them: for cuBLASLt since 13
 *	CONTEXT_LOCAL_STORAGE	[0] keep a value with a context, [1] forget the value, [2] find the value: at almost each runtime call
 *	CONTEXT_CHECKS		[2] [3] check a context: always successful
 *	INTEGRITY_CHECK		[1] a code of facts that both sides know: see below
 */
#include "export.h"

#include "attach.h"
#include "context.h"
#include "device.h"
#include "gen_abi.h"
#include "transport.h"
#include "variables.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Context-local storage. Reading needs no lock, because an entry keeps its place for ever. */
typedef void ended(CUcontext, void *key, void *value);
enum { PLACES = 4096 };
static struct kept {
	_Atomic uint64_t context; /* 0: the place was never used */
	void *key;
	void *_Atomic value;
	ended *tell;
	_Atomic bool is;
} storage[PLACES];
static pthread_mutex_t storage_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned place_of(uint64_t context, const void *key)
{
	return (unsigned)((context * 0x9e3779b97f4a7c15ull ^ (uintptr_t)key * 0xff51afd7ed558ccdull) >> 40) % PLACES;
}

/* The place of a key, or the free place where the key belongs; NULL if the table is full. */
static struct kept *find_place(uint64_t context, const void *key)
{
	for (unsigned i = 0, at = place_of(context, key); i < PLACES; ++i) {
		struct kept *k = &storage[(at + i) % PLACES];
		const uint64_t who = atomic_load_explicit(&k->context, memory_order_acquire);

		if (who == 0 || (who == context && k->key == key))
			return k;
	}
	return NULL;
}

/* The context of a call: NULL is the current context. */
static CUresult find_meant(CUcontext ctx, uint64_t *handle)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	*handle = ctx != NULL ? (uintptr_t)ctx : sing_current == NULL ? 0 : sing_current->handle;
	return *handle == 0 || sing_context_find(*handle) == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

static CUresult storage_put(CUcontext ctx, void *key, void *value, ended *tell)
{
	uint64_t context;
	CUresult r = find_meant(ctx, &context);
	struct kept *k;

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&storage_lock);
	k = find_place(context, key);
	if (k == NULL) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		k->key = key;
		k->tell = tell;
		atomic_store_explicit(&k->value, value, memory_order_relaxed);
		atomic_store_explicit(&k->is, true, memory_order_release);
		atomic_store_explicit(&k->context, context, memory_order_release);
	}
	pthread_mutex_unlock(&storage_lock);
	return r;
}

static CUresult storage_get(void **value, CUcontext ctx, void *key)
{
	uint64_t context;
	const CUresult r = find_meant(ctx, &context);
	struct kept *k;

	if (r != CUDA_SUCCESS)
		return r;
	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	k = find_place(context, key);
	if (k == NULL || atomic_load_explicit(&k->context, memory_order_acquire) == 0 || !atomic_load_explicit(&k->is, memory_order_acquire))
		return CUDA_ERROR_INVALID_HANDLE;
	*value = atomic_load_explicit(&k->value, memory_order_relaxed);
	return CUDA_SUCCESS;
}

static CUresult storage_delete(CUcontext ctx, void *key)
{
	uint64_t context;
	const CUresult r = find_meant(ctx, &context);
	struct kept *k;

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&storage_lock);
	k = find_place(context, key);
	if (k != NULL)
		atomic_store_explicit(&k->is, false, memory_order_release);
	pthread_mutex_unlock(&storage_lock);
	return CUDA_SUCCESS;
}

void sing_context_ended(uint64_t handle)
{
	for (unsigned i = 0; i < PLACES; ++i) {
		struct kept *k = &storage[i];
		ended *tell = NULL;
		void *value = NULL;

		if (atomic_load_explicit(&k->context, memory_order_acquire) != handle)
			continue;
		pthread_mutex_lock(&storage_lock);
		if (atomic_exchange(&k->is, false)) {
			tell = k->tell;
			value = atomic_load(&k->value);
		}
		pthread_mutex_unlock(&storage_lock);
		if (tell != NULL)
			tell((CUcontext)(uintptr_t)handle, k->key, value);
	}
}

static CUresult load_module(CUmodule *module, const void *image)
{
	return sing_load_for_runtime(module, image);
}

static CUresult load_more(CUmodule *module, const void *image, void *a, void *b, unsigned int c)
{
	(void)a, (void)b, (void)c;
	return load_module(module, image);
}

static CUresult load_bare(const void *image, CUmodule *module, void *a, void *b, unsigned int c)
{
	(void)a, (void)b, (void)c;
	return load_module(module, image);
}

static CUresult primary_context(CUcontext *ctx, CUdevice dev)
{
	return sing_primary_context(dev, ctx);
}

/* The tables: their numbers, which are places in table_names, and their elements. */
enum {
	interface_number,
	tools_hooks_number,
	tools_tls_number,
	local_storage_number,
	context_checks_number,
	integrity_number,
	context_stream_number,
	module_tools_number,
	groups_of_device_number,
	TABLES,
};
static const char table_names[TABLES][24] = {
	"CUDART_INTERFACE", "TOOLS_RUNTIME_HOOKS", "TOOLS_TLS", "CONTEXT_LOCAL_STORAGE", "CONTEXT_CHECKS", "INTEGRITY_CHECK", "CONTEXT_STREAM",
	"TOOLS_MODULE", "DEVICE_GROUPS",
};
enum { SLOTS = 100 }; /* no table has more */
static void *interface[10], *tools_hooks[7], *tools_tls[4], *local_storage[4], *context_checks[4], *integrity[3], *context_stream[93];
static void *module_tools[64], *groups_of_device[17];

/* Name a function that is not known here, when it is called for the first time. */
static CUresult miss_slot(unsigned table, unsigned slot)
{
	static _Atomic bool said[TABLES][SLOTS];
	char name[64];

	if (!atomic_exchange_explicit(&said[table][slot], true, memory_order_relaxed)) {
		(void)snprintf(name, sizeof(name), "cuGetExportTable: %s[%u]", table_names[table], slot);
		sing_missed(name, "what this function of the driver does is not published");
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* A function for each place in a table, TABLE_N. */
#define TEN(DO, table, d)                                                                                                \
	DO(table, d##0)                                                                                                  \
	DO(table, d##1)                                                                                                  \
	DO(table, d##2)                                                                                                  \
	DO(table, d##3)                                                                                                  \
	DO(table, d##4)                                                                                                  \
	DO(table, d##5)                                                                                                  \
	DO(table, d##6)                                                                                                  \
	DO(table, d##7)                                                                                                  \
	DO(table, d##8)                                                                                                  \
	DO(table, d##9)
#define SEVENTY(DO, table)                                                                                               \
	TEN(DO, table, )                                                                                                 \
	TEN(DO, table, 1)                                                                                                \
	TEN(DO, table, 2)                                                                                                \
	TEN(DO, table, 3)                                                                                                \
	TEN(DO, table, 4)                                                                                                \
	TEN(DO, table, 5)                                                                                                \
	TEN(DO, table, 6)
#define EACH_SLOT(DO)                                                                                                    \
	TEN(DO, interface, )                                                                                             \
	TEN(DO, tools_hooks, )                                                                                           \
	TEN(DO, tools_tls, )                                                                                             \
	TEN(DO, context_checks, )                                                                                        \
	TEN(DO, integrity, )                                                                                             \
	SEVENTY(DO, context_stream)                                                                                      \
	TEN(DO, context_stream, 7)                                                                                       \
	TEN(DO, context_stream, 8)                                                                                       \
	TEN(DO, context_stream, 9)                                                                                       \
	SEVENTY(DO, module_tools)                                                                                        \
	TEN(DO, groups_of_device, )                                                                                      \
	TEN(DO, groups_of_device, 1)
#define DEFINE_SLOT(table, n)                                                                                            \
	static CUresult table##_##n(void)                                                                                \
	{                                                                                                                \
		return miss_slot(table##_number, n);                                                                     \
	}
EACH_SLOT(DEFINE_SLOT)

static void fill_slot(void **table, size_t size, unsigned slot, CUresult (*missed)(void))
{
	if (slot > 0 && slot < size / sizeof(*table))
		table[slot] = (void *)missed;
}

static uint32_t hooks[1024], more_hooks[14];

static void get_hooks(void **memory, size_t *n)
{
	*memory = hooks;
	*n = sizeof(hooks) / sizeof(hooks[0]);
}

static void get_more_hooks(void **memory, size_t *n)
{
	*memory = more_hooks;
	*n = sizeof(more_hooks) / sizeof(more_hooks[0]);
}

static CUresult check_context(CUcontext ctx, uint32_t *wrong, const void **what)
{
	(void)ctx, (void)what;
	*wrong = 0;
	return CUDA_SUCCESS;
}

static uint32_t check_nothing(void)
{
	return 0;
}

/*
 * The code is an HMAC (RFC 2104) by MD2 (RFC 1319), of blocks of 16 bytes, under a key that is public.
 * The table is made of the digits of pi, as RFC 1319 says; a test has the RFC's vectors.
 */
struct md2 {
	unsigned char state[48], sum[16], block[16], last;
	unsigned n;
};

static const unsigned char pi[256] = {
	41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19,
	98, 167, 5, 243, 192, 199, 115, 140, 152, 147, 43, 217, 188, 76, 130, 202,
	30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24, 138, 23, 229, 18,
	190, 78, 196, 214, 218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122,
	169, 104, 121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11, 34, 95, 33,
	128, 127, 93, 154, 90, 144, 50, 39, 53, 62, 204, 231, 191, 247, 151, 3,
	255, 25, 48, 179, 72, 165, 181, 209, 215, 94, 146, 42, 172, 86, 170, 198,
	79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241,
	69, 157, 112, 89, 100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2,
	27, 96, 37, 173, 174, 176, 185, 246, 28, 70, 97, 105, 52, 64, 126, 15,
	85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197, 234, 38,
	44, 83, 13, 110, 133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82,
	106, 220, 55, 200, 108, 193, 171, 250, 36, 225, 123, 8, 12, 189, 177, 74,
	120, 136, 149, 139, 227, 99, 232, 109, 233, 203, 213, 254, 59, 0, 29, 57,
	242, 239, 183, 14, 102, 88, 208, 228, 166, 119, 114, 248, 235, 117, 75, 10,
	49, 68, 80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
};

static void md2_block(struct md2 *m, const unsigned char block[16])
{
	unsigned char t = 0;

	for (int i = 0; i < 16; ++i) {
		m->state[16 + i] = block[i];
		m->state[32 + i] = block[i] ^ m->state[i];
	}
	for (int round = 0; round < 18; ++round) {
		for (int i = 0; i < 48; ++i)
			t = m->state[i] ^= pi[t];
		t = (unsigned char)(t + round);
	}
}

static void md2_add(struct md2 *m, const void *bytes, size_t n)
{
	for (const unsigned char *p = bytes; n > 0; --n) {
		m->block[m->n] = *p;
		m->last = m->sum[m->n] ^= pi[*p++ ^ m->last];
		if (++m->n == 16) {
			md2_block(m, m->block);
			m->n = 0;
		}
	}
}

static void md2_end(struct md2 *m, unsigned char out[16])
{
	unsigned char pad[16];
	const unsigned n = 16 - m->n;

	memset(pad, (int)n, n);
	md2_add(m, pad, n);
	md2_block(m, m->sum);
	memcpy(out, m->state, 16);
}

static void md2_key(struct md2 *m, unsigned char mask)
{
	static const unsigned char key[16] = { 0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f };

	memset(m, 0, sizeof(*m));
	for (int i = 0; i < 16; ++i) {
		const unsigned char k = key[i] ^ mask;

		md2_add(m, &k, 1);
	}
}

static CUresult current_context(CUcontext *ctx)
{
	return ctx == NULL ? CUDA_ERROR_INVALID_VALUE : sing_cuCtxGetCurrent(ctx);
}

static CUresult context_number(CUcontext ctx, uint64_t *id)
{
	uint64_t handle = 0;
	const CUresult r = id == NULL ? CUDA_ERROR_INVALID_VALUE : find_meant(ctx, &handle);

	if (r == CUDA_SUCCESS)
		*id = sing_context_number(handle);
	return r;
}

/* The number of a stream: the same for all handles of a stream, and different for two streams. */
static CUresult stream_number(CUcontext ctx, const void *stream, uint64_t *id)
{
	uint64_t handle;
	const CUresult r = id == NULL ? CUDA_ERROR_INVALID_VALUE : find_meant(ctx, &handle);

	if (r == CUDA_SUCCESS)
		*id = (uintptr_t)stream;
	return r;
}

/* The default stream has a handle of its own here: that of the whole process, or of the thread. */
static CUresult stream_behind(CUcontext ctx, CUstream stream, void **behind, int per_thread)
{
	uint64_t handle;
	const CUresult r = behind == NULL ? CUDA_ERROR_INVALID_VALUE : find_meant(ctx, &handle);

	if (r == CUDA_SUCCESS)
		*behind = stream != NULL ? (void *)stream : (void *)(uintptr_t)(per_thread ? 2 : 1);
	return r;
}

/* Calls found for each function of a module, and returns how many functions there are. */
static uint64_t each_function(CUcontext ctx, CUmodule module, void (*found)(void *to, CUfunction f, CUmodule owner), void *to)
{
	CUfunction *all;
	unsigned n = 0;

	(void)ctx;
	if (found == NULL || sing_cuModuleGetFunctionCount(&n, module) != CUDA_SUCCESS || n == 0)
		return 0;
	all = calloc(n, sizeof(*all));
	if (all == NULL || sing_cuModuleEnumerateFunctions(all, n, module) != CUDA_SUCCESS)
		n = 0;
	for (unsigned i = 0; i < n; ++i)
		found(to, all[i], module);
	free(all);
	return n;
}

/*
 * Two lists of the multiprocessors of the first device, with a byte for each pair, in two orders. If the server does
 * not know them, the call fails, and programs do not use the groups.
 */
static CUresult device_groups(unsigned char **groups, unsigned char **order)
{
	int n = 0;
	CUresult r = sing_devices() > 0 ? sing_device_attribute(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &n) : CUDA_ERROR_NOT_INITIALIZED;

	if (r != CUDA_SUCCESS)
		return r;
	n = (n + 1) / 2;
	*groups = calloc((size_t)n + 1, 1);
	*order = calloc((size_t)n + 1, 1);
	r = *groups == NULL || *order == NULL ? CUDA_ERROR_OUT_OF_MEMORY : sing_send_processor_groups(0, *groups, *order, (unsigned int)n, 0);
	if (r != CUDA_SUCCESS) {
		free(*groups);
		free(*order);
		*groups = *order = NULL;
	}
	return r;
}

static void free_groups(unsigned char *groups, unsigned char *order)
{
	free(groups);
	free(order);
}

/* The facts that the code is computed from. */
struct shared {
	uint32_t driver, asked, process, thread;
	uint64_t interface, integrity, function, seconds;
};
struct shared_device {
	CUuuid id;
	int32_t domain, bus, device;
};
_Static_assert(sizeof(struct shared) == 48 && sizeof(struct shared_device) == 28, "layout");

static CUresult check_integrity(uint32_t version, uint64_t seconds, uint64_t code[2])
{
	struct shared s = {
		.asked = version, .process = (uint32_t)getpid(), .thread = (uint32_t)(uintptr_t)pthread_self(),
		.interface = (uintptr_t)interface, .integrity = (uintptr_t)integrity, .function = (uintptr_t)integrity[1], .seconds = seconds,
	};
	struct md2 inner, outer;
	unsigned char digest[16];
	int driver = 0;
	CUresult r;

	if (version % 10 < 2) { /* the code of these versions is constant */
		code[0] = version % 10 == 0 ? 0x3341181c03cb675c : 0x1841181c03cb675c;
		code[1] = 0x8ed383aa1f4cd1e8;
		return CUDA_SUCCESS;
	}
	r = sing_cuDriverGetVersion(&driver);
	if (r != CUDA_SUCCESS)
		return r;
	s.driver = (uint32_t)driver;
	md2_key(&inner, 0x36);
	md2_add(&inner, &s, sizeof(s));
	for (int i = 0; i < sing_devices(); ++i) {
		struct shared_device d = { 0 };

		r = sing_cuDeviceGetUuid(&d.id, i);
		if (r == CUDA_SUCCESS)
			r = sing_device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &d.domain);
		if (r == CUDA_SUCCESS)
			r = sing_device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &d.bus);
		if (r == CUDA_SUCCESS)
			r = sing_device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &d.device);
		if (r != CUDA_SUCCESS)
			return r;
		md2_add(&inner, &d, sizeof(d));
	}
	md2_end(&inner, digest);
	md2_key(&outer, 0x5c);
	md2_add(&outer, digest, sizeof(digest));
	md2_end(&outer, digest);
	memcpy(code, digest, sizeof(digest));
	return CUDA_SUCCESS;
}

/* The tables are filled at the first call: pointers in a static table would be relocated in every process. */
static void fill_tables(void)
{
#define FILL_SLOT(table, n) fill_slot(table, sizeof(table), n, table##_##n);
	EACH_SLOT(FILL_SLOT)
	interface[0] = (void *)sizeof(interface);
	interface[1] = (void *)load_module;
	interface[2] = (void *)primary_context;
	interface[6] = (void *)load_more;
	interface[8] = (void *)load_bare;
	tools_hooks[0] = (void *)sizeof(tools_hooks);
	tools_hooks[2] = (void *)get_hooks;
	tools_hooks[6] = (void *)get_more_hooks;
	tools_tls[0] = (void *)sizeof(tools_tls);
	tools_tls[2] = (void *)current_context;
	context_stream[0] = (void *)sizeof(context_stream);
	context_stream[4] = (void *)context_number;
	context_stream[39] = (void *)stream_number;
	context_stream[51] = (void *)stream_behind;
	module_tools[0] = (void *)sizeof(module_tools);
	module_tools[7] = (void *)each_function;
	groups_of_device[0] = (void *)sizeof(groups_of_device);
	groups_of_device[4] = (void *)device_groups;
	groups_of_device[13] = (void *)free_groups;
	local_storage[0] = (void *)storage_put;
	local_storage[1] = (void *)storage_delete;
	local_storage[2] = (void *)storage_get;
	context_checks[0] = (void *)sizeof(context_checks);
	context_checks[2] = (void *)check_context;
	context_checks[3] = (void *)check_nothing;
	integrity[0] = (void *)sizeof(integrity);
	integrity[1] = (void *)check_integrity;
}

/* Name a table that is not known here, when a program asks for it for the first time. */
static void miss_table(const CUuuid *id)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static unsigned char said[32][16];
	static unsigned count;
	char name[64];
	int n = snprintf(name, sizeof(name), "cuGetExportTable: ");
	unsigned i = 0;

	for (unsigned k = 0; k < 16; ++k)
		n += snprintf(name + n, sizeof(name) - (size_t)n, "%02x", (unsigned char)id->bytes[k]);
	pthread_mutex_lock(&lock);
	while (i < count && memcmp(said[i], id->bytes, 16) != 0)
		++i;
	if (i == count && count < sizeof(said) / sizeof(said[0]))
		memcpy(said[count++], id->bytes, 16);
	else
		name[0] = 0;
	pthread_mutex_unlock(&lock);
	if (name[0] != 0)
		sing_missed(name, "what this table of the driver's functions has is not published");
}

CUresult sing_cuGetExportTable(void **table, const CUuuid *id)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const struct {
		unsigned char id[16];
		unsigned which;
	} known[] = {
		{ { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 }, interface_number },
		{ { 0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66 }, tools_hooks_number },
		{ { 0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc }, tools_tls_number },
		{ { 0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93 }, local_storage_number },
		{ { 0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e }, context_checks_number },
		{ { 0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2 }, integrity_number },
		{ { 0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2 }, context_stream_number },
		{ { 0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e }, module_tools_number },
		{ { 0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca }, groups_of_device_number },
	};

	if (table == NULL || id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_once(&once, fill_tables);
	*table = NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i)
		if (memcmp(known[i].id, id->bytes, 16) == 0) {
			void **const tables[TABLES] = {
				interface, tools_hooks, tools_tls, local_storage, context_checks, integrity, context_stream, module_tools, groups_of_device,
			};

			*table = tables[known[i].which];
			return CUDA_SUCCESS;
		}
	miss_table(id);
	return CUDA_ERROR_INVALID_VALUE;
}
SING_PUBLIC(cuGetExportTable);
