# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the options that this node's srun knows, as it gives them to getopt_long:
# name, what follows (0, 1 or 2 as in struct option), short form or "-".
# Arguments: path of libslurmfull.so.
import ctypes, sys


class Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("has_arg", ctypes.c_int), ("flag", ctypes.c_void_p), ("val", ctypes.c_int)]


lib = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
lib.slurm_init(None)
lib.spank_init_allocator()
opt = ctypes.create_string_buffer(1 << 16)  # slurm_opt_t: salloc, sbatch, scron, srun, ...
srun = ctypes.create_string_buffer(1 << 16)
ctypes.cast(opt, ctypes.POINTER(ctypes.c_void_p))[3] = ctypes.addressof(srun)
lib.slurm_option_table_create.restype = ctypes.POINTER(Option)
short = ctypes.c_char_p()
table = lib.slurm_option_table_create(opt, ctypes.byref(short))
i = 0
while table[i].name:
    val = table[i].val
    print(table[i].name.decode(), table[i].has_arg, chr(val) if 0 < val < 128 else "-")
    i += 1
