// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Compares ../../pmix/abi.h with the headers of a PMIx. Compiling is the test. */
#define _GNU_SOURCE
#include <pmix_server.h>

#include "../../pmix/abi.h"

#include <string.h>

#define SAME(a, b) _Static_assert((long)(a) == (long)(b), #a " is not " #b)
#define SAME_SIZE(a, b) SAME(sizeof(a), sizeof(b))
#define SAME_PLACE(a, x, b, y) SAME(offsetof(a, x), offsetof(b, y))

SAME(ABI_NAMESPACE_SIZE, sizeof(pmix_nspace_t));
SAME(ABI_KEY_SIZE, sizeof(pmix_key_t));
SAME_SIZE(abi_status, pmix_status_t);
SAME_SIZE(struct abi_proc, pmix_proc_t);
SAME_PLACE(struct abi_proc, rank, pmix_proc_t, rank);
SAME_SIZE(struct abi_bytes, pmix_byte_object_t);
SAME_PLACE(struct abi_bytes, size, pmix_byte_object_t, size);
SAME_SIZE(struct abi_array, pmix_data_array_t);
SAME_PLACE(struct abi_array, size, pmix_data_array_t, size);
SAME_PLACE(struct abi_array, array, pmix_data_array_t, array);
SAME_SIZE(struct abi_value, pmix_value_t);
SAME_PLACE(struct abi_value, data, pmix_value_t, data);
SAME_SIZE(struct abi_info, pmix_info_t);
SAME_PLACE(struct abi_info, flags, pmix_info_t, flags);
SAME_PLACE(struct abi_info, value, pmix_info_t, value);
SAME_SIZE(struct abi_published, pmix_pdata_t);
SAME_PLACE(struct abi_published, key, pmix_pdata_t, key);
SAME_PLACE(struct abi_published, value, pmix_pdata_t, value);
SAME_SIZE(struct abi_buffer, pmix_data_buffer_t);
SAME_PLACE(struct abi_buffer, unpack, pmix_data_buffer_t, unpack_ptr);
SAME_PLACE(struct abi_buffer, used, pmix_data_buffer_t, bytes_used);

SAME_PLACE(struct abi_module, abort, pmix_server_module_t, abort);
SAME_PLACE(struct abi_module, fence, pmix_server_module_t, fence_nb);
SAME_PLACE(struct abi_module, direct_modex, pmix_server_module_t, direct_modex);
SAME_PLACE(struct abi_module, publish, pmix_server_module_t, publish);
SAME_PLACE(struct abi_module, lookup, pmix_server_module_t, lookup);
SAME_PLACE(struct abi_module, unpublish, pmix_server_module_t, unpublish);
SAME_PLACE(struct abi_module, connect, pmix_server_module_t, connect);
SAME_PLACE(struct abi_module, disconnect, pmix_server_module_t, disconnect);
SAME_PLACE(struct abi_module, group, pmix_server_module_t, group);
_Static_assert(sizeof(struct abi_module) >= sizeof(pmix_server_module_t), "the library copies what is not there");

SAME(ABI_SUCCESS, PMIX_SUCCESS);
SAME(ABI_ERROR, PMIX_ERROR);
SAME(ABI_ERR_BAD_PARAM, PMIX_ERR_BAD_PARAM);
SAME(ABI_ERR_NOMEM, PMIX_ERR_NOMEM);
SAME(ABI_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND);
SAME(ABI_ERR_NOT_SUPPORTED, PMIX_ERR_NOT_SUPPORTED);
SAME(ABI_ERR_DUPLICATE_KEY, PMIX_ERR_DUPLICATE_KEY);
SAME(ABI_ERR_LOST_CONNECTION, PMIX_ERR_LOST_CONNECTION);
SAME(ABI_OPERATION_SUCCEEDED, PMIX_OPERATION_SUCCEEDED);
SAME(ABI_RANK_WILDCARD, PMIX_RANK_WILDCARD);
SAME(ABI_BOOL, PMIX_BOOL);
SAME(ABI_STRING, PMIX_STRING);
SAME(ABI_SIZE, PMIX_SIZE);
SAME(ABI_UINT16, PMIX_UINT16);
SAME(ABI_UINT32, PMIX_UINT32);
SAME(ABI_PROC, PMIX_PROC);
SAME(ABI_INFO, PMIX_INFO);
SAME(ABI_BYTES, PMIX_BYTE_OBJECT);
SAME(ABI_DATA_ARRAY, PMIX_DATA_ARRAY);
SAME(ABI_RANK, PMIX_PROC_RANK);
SAME(ABI_REGEX, PMIX_REGEX);
SAME(ABI_GROUP_CONSTRUCT, PMIX_GROUP_CONSTRUCT);
SAME(ABI_GROUP_DESTRUCT, PMIX_GROUP_DESTRUCT);

/* The names of attributes that the sources have as texts. Returns how many PMIx has other names for. */
static int count_other_names(void)
{
	static const char *const names[][2] = {
		{ PMIX_SERVER_NSPACE, "pmix.srv.nspace" }, { PMIX_SERVER_RANK, "pmix.srv.rank" },
		{ PMIX_SERVER_TMPDIR, "pmix.srvr.tmpdir" }, { PMIX_SYSTEM_TMPDIR, "pmix.sys.tmpdir" },
		{ PMIX_HOSTNAME, "pmix.hname" }, { PMIX_JOBID, "pmix.jobid" }, { PMIX_UNIV_SIZE, "pmix.univ.size" },
		{ PMIX_JOB_SIZE, "pmix.job.size" }, { PMIX_MAX_PROCS, "pmix.max.size" }, { PMIX_APP_SIZE, "pmix.app.size" },
		{ PMIX_JOB_NUM_APPS, "pmix.job.napps" }, { PMIX_NUM_NODES, "pmix.num.nodes" },
		{ PMIX_LOCAL_SIZE, "pmix.local.size" }, { PMIX_NODE_SIZE, "pmix.node.size" },
		{ PMIX_NODE_OVERSUBSCRIBED, "pmix.ndosub" },
		{ PMIX_NPROC_OFFSET, "pmix.offset" }, { PMIX_APPLDR, "pmix.aldr" }, { PMIX_LOCALLDR, "pmix.lldr" },
		{ PMIX_LOCAL_PEERS, "pmix.lpeers" }, { PMIX_TMPDIR, "pmix.tmpdir" }, { PMIX_NSDIR, "pmix.nsdir" },
		{ PMIX_NODE_MAP, "pmix.nmap" }, { PMIX_PROC_MAP, "pmix.pmap" }, { PMIX_PROC_DATA, "pmix.pdata" },
		{ PMIX_RANK, "pmix.rank" }, { PMIX_APPNUM, "pmix.appnum" }, { PMIX_APP_RANK, "pmix.apprank" },
		{ PMIX_GLOBAL_RANK, "pmix.grank" }, { PMIX_LOCAL_RANK, "pmix.lrank" }, { PMIX_NODE_RANK, "pmix.nrank" },
		{ PMIX_NODEID, "pmix.nodeid" }, { PMIX_PROCDIR, "pmix.pdir" }, { PMIX_GROUP_CONTEXT_ID, "pmix.grp.ctxid" },
		{ PMIX_GROUP_MEMBERSHIP, "pmix.grp.mbrs" }, { PMIX_GROUP_ENDPT_DATA, "pmix.grp.endpt" },
		{ PMIX_GROUP_INFO, "pmix.grp.info" },
	};
	int n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
		n += strcmp(names[i][0], names[i][1]) != 0;

	return (n);
}

int main(void)
{
	return (count_other_names());
}
