#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Open MPI over TCP, python with mpi4py and numpy on two nodes: reductions, gathers, a token
# Needs: openmpi-bin python3-mpi4py python3-numpy
#SBATCH --job-name=openmpi-allreduce --nodes=2 --ntasks-per-node=1 --output=log
set -eu
# By default it cannot decide which of lo and eth0 leads to the other node.
export OMPI_MCA_btl_tcp_if_include=eth0 OPENBLAS_NUM_THREADS=1
echo "starting"
cat >ranks.py <<'PY'
import hashlib, sys, time
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rng = np.random.default_rng(comm.rank)
weights, h = np.zeros(20000), hashlib.sha256()
with open(f"rank.{comm.rank}", "w") as out:
    for turn in range(70):
        step = rng.standard_normal(20000)
        comm.Allreduce(MPI.IN_PLACE, step)
        weights += step * 0.1
        parts = comm.gather({"rank": comm.rank, "norm": float(np.abs(weights).sum()).hex()})
        token = comm.sendrecv((turn, comm.rank), dest=1 - comm.rank, source=1 - comm.rank)
        h.update(weights.tobytes() + repr((parts, token)).encode())
        print(turn, h.hexdigest(), file=out, flush=True)
        if comm.rank == 0 and turn % 14 == 13:
            print("turn", turn + 1, parts, flush=True)
        time.sleep(0.08)
comm.Barrier()
PY
# What it says of a node's death, before Slurm ends the job, would stay in the log; a file is put back.
mpirun.openmpi -n 2 --map-by node python3 ranks.py 2>complaints
sha256sum rank.0 rank.1
