# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# Prints what PMIx's server says of whether the tasks of this node have fewer CPUs than they are (PMIX_NODE_OVERSUBSCRIBED).
import ctypes

SUCCESS, WILDCARD = 0, 0xFFFFFFFE


class Proc(ctypes.Structure):
    _fields_ = [("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32)]


VALUE_OFFSET = 8  # of the union in pmix_value_t
pmix, me, value = ctypes.CDLL("libpmix.so.2"), Proc(), ctypes.c_void_p()
assert pmix.PMIx_Init(ctypes.byref(me), None, ctypes.c_size_t(0)) == SUCCESS
job = Proc(me.nspace, WILDCARD)
found = pmix.PMIx_Get(ctypes.byref(job), b"pmix.ndosub", None, ctypes.c_size_t(0), ctypes.byref(value)) == SUCCESS
print("shared" if found and ctypes.cast(value.value + VALUE_OFFSET, ctypes.POINTER(ctypes.c_bool))[0] else "own", flush=True)
pmix.PMIx_Finalize(None, ctypes.c_size_t(0))
