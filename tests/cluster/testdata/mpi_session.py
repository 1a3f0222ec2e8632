# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What PMIx is asked for beside MPI_Init: names, sessions, and the ranks of a node. Waits for the file ~/go in between.

import os
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
node = world.Split_type(MPI.COMM_TYPE_SHARED)
if world.rank == 0:
    MPI.Publish_name("service", "port")
    print("published", flush=True)
while world.rank == 0 and not os.path.exists(os.path.expanduser("~/go")):
    time.sleep(0.1)
world.Barrier()
session = MPI.Session.Init()
group = session.Create_group("mpi://WORLD")
comm = MPI.Intracomm.Create_from_group(group, "tag")
told = (MPI.Lookup_name("service"), comm.size, comm.allreduce(1), node.size, node.rank)
all_told = world.gather(told)
if world.rank == 0:
    print(*all_told, sep="\n", flush=True)
comm.Free()
group.Free()
session.Finalize()
