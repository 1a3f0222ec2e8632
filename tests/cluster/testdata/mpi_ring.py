# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
#   mpi_ring.py ROUNDS [abort]    each round depends on all earlier rounds of all ranks; rank 0 prints a line of it

import hashlib
import sys
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
mine = b"%d" % comm.rank
history = hashlib.sha256()
for i in range(1, int(sys.argv[1]) + 1):
    other = comm.sendrecv(mine, dest=(comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    mine = hashlib.sha256(other + mine).digest()
    history.update(b"".join(comm.allgather(mine)))
    if comm.rank == 0:
        print(f"{i} of {comm.size}: {history.hexdigest()[:16]}", flush=True)
    if sys.argv[2:] == ["abort"] and comm.rank == comm.size - 1 and i == 3:
        comm.Abort(7)
    time.sleep(0.2)
comm.Barrier()
