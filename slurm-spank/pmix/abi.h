// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The part of PMIx's binary interface that sing-pmix uses, as the PMIx standard has it from version 4 on.
 * The library is found when sing-pmix runs, so no PMIx is needed to build sing-pmix, nor on nodes
 * where no step uses PMIx. A test of pmitest compares each layout and number below with the headers of an
 * installed PMIx.
 */
#ifndef SING_PMIX_ABI_H
#define SING_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ABI_NAMESPACE_SIZE = 256, ABI_KEY_SIZE = 512 };

typedef int abi_status;

enum {
	ABI_SUCCESS = 0,
	ABI_ERROR = -1,
	ABI_ERR_BAD_PARAM = -27,
	ABI_ERR_NOMEM = -32,
	ABI_ERR_NOT_FOUND = -46,
	ABI_ERR_NOT_SUPPORTED = -47,
	ABI_ERR_DUPLICATE_KEY = -53,
	ABI_ERR_LOST_CONNECTION = -61,
	ABI_OPERATION_SUCCEEDED = -157,
};

#define ABI_RANK_WILDCARD 0xfffffffeU

/* Types of values. */
enum {
	ABI_BOOL = 1,
	ABI_STRING = 3,
	ABI_SIZE = 4,
	ABI_UINT16 = 13,
	ABI_UINT32 = 14,
	ABI_PROC = 22,
	ABI_INFO = 24,
	ABI_BYTES = 27,
	ABI_DATA_ARRAY = 39,
	ABI_RANK = 40,
	ABI_REGEX = 49,
};

enum { ABI_GROUP_CONSTRUCT = 0, ABI_GROUP_DESTRUCT = 1 };

struct abi_proc {
	char nspace[ABI_NAMESPACE_SIZE];
	uint32_t rank;
};

struct abi_bytes {
	char *bytes;
	size_t size;
};

struct abi_array {
	uint16_t type;
	size_t size;
	void *array;
};

struct abi_value {
	uint16_t type;
	union {
		bool flag;
		char *string;
		size_t size;
		uint16_t uint16;
		uint32_t uint32;
		uint32_t rank;
		struct abi_bytes bytes;
		struct abi_array *array;
		struct abi_proc *proc;
		void *words[3]; /* the largest member of PMIx's union */
	} data;
};

struct abi_info {
	char key[ABI_KEY_SIZE];
	uint32_t flags;
	struct abi_value value;
};

/* A published value, with the process that has published the value. */
struct abi_published {
	struct abi_proc proc;
	char key[ABI_KEY_SIZE];
	struct abi_value value;
};

struct abi_buffer {
	char *base;
	char *pack;
	char *unpack;
	size_t allocated;
	size_t used;
};

typedef void (*abi_release)(void *);
typedef void (*abi_op_done)(abi_status, void *);
typedef void (*abi_modex_done)(abi_status, const char *, size_t, void *, abi_release, void *);
typedef void (*abi_lookup_done)(abi_status, struct abi_published *, size_t, void *);
typedef void (*abi_info_done)(abi_status, struct abi_info *, size_t, void *, abi_release, void *);
typedef void (*abi_request_done)(abi_status, char *, size_t, void *);

/*
 * The functions by which a server carries out requests of its library. A NULL function is not supported, or has
 * no work to do.
 */
struct abi_module {
	void (*client_connected)(void);
	void (*client_finalized)(void);
	abi_status (*abort)(const struct abi_proc *, void *object, int status, const char *message, struct abi_proc *, size_t,
		abi_op_done, void *);
	abi_status (*fence)(const struct abi_proc *, size_t, const struct abi_info *, size_t, char *data, size_t,
		abi_modex_done, void *);
	abi_status (*direct_modex)(const struct abi_proc *, const struct abi_info *, size_t, abi_modex_done, void *);
	abi_status (*publish)(const struct abi_proc *, const struct abi_info *, size_t, abi_op_done, void *);
	abi_status (*lookup)(const struct abi_proc *, char **keys, const struct abi_info *, size_t, abi_lookup_done, void *);
	abi_status (*unpublish)(const struct abi_proc *, char **keys, const struct abi_info *, size_t, abi_op_done, void *);
	void (*spawn)(void);
	abi_status (*connect)(const struct abi_proc *, size_t, const struct abi_info *, size_t, abi_op_done, void *);
	abi_status (*disconnect)(const struct abi_proc *, size_t, const struct abi_info *, size_t, abi_op_done, void *);
	void (*of_events[3])(void);   /* register_events to listener */
	void (*of_version_2[7])(void); /* notify_event to monitor */
	void (*of_version_3[4])(void); /* get_credential to push_stdin */
	abi_status (*group)(
		int operation, char *name, const struct abi_proc *, size_t, const struct abi_info *, size_t, abi_info_done, void *);
	void (*later[38])(void); /* the library copies the functions that it knows */
};

/* The functions of the library. */
#define ABI_FUNCTIONS(X) \
	X(const char *, PMIx_Get_version, (void)) \
	X(const char *, PMIx_Error_string, (abi_status)) \
	X(abi_status, PMIx_server_init, (struct abi_module *, struct abi_info *, size_t)) \
	X(abi_status, PMIx_generate_regex, (const char *, char **)) \
	X(abi_status, PMIx_generate_ppn, (const char *, char **)) \
	X(abi_status, PMIx_Value_load, (struct abi_value *, const void *, uint16_t)) \
	X(abi_status, PMIx_Data_pack, (const struct abi_proc *, struct abi_buffer *, void *, int32_t, uint16_t)) \
	X(abi_status, PMIx_Data_unpack, (const struct abi_proc *, struct abi_buffer *, void *, int32_t *, uint16_t)) \
	X(abi_status, PMIx_server_register_nspace, \
		(const char *, int, struct abi_info *, size_t, abi_op_done, void *)) \
	X(abi_status, PMIx_server_register_client, \
		(const struct abi_proc *, uid_t, gid_t, void *, abi_op_done, void *)) \
	X(abi_status, PMIx_server_setup_fork, (const struct abi_proc *, char ***)) \
	X(abi_status, PMIx_server_dmodex_request, (const struct abi_proc *, abi_request_done, void *))

#endif
