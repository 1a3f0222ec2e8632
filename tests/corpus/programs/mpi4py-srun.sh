#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: mpi4py on Open MPI, started by srun --mpi=pmix, two ranks on each of two nodes: waves on a grid, with numpy
# Needs: openmpi-bin python3-mpi4py python3-numpy
# First: --singularity
# Without it Slurm has to serve PMIx, and that of Debian cannot.
#SBATCH --job-name=mpi4py-srun --nodes=2 --ntasks=4 --overcommit --output=log
set -eu
export OPENBLAS_NUM_THREADS=1
cat >heat.py <<'PY'
import hashlib, time
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
grid = world.Create_cart([2, 2], periods=[True, True])
rows = world.Split(world.rank // 2)
rng = np.random.default_rng(world.rank)
field, h = rng.random((66, 66)), hashlib.sha256()
left, right = grid.Shift(1, 1)
up, down = grid.Shift(0, 1)
for turn in range(1, 71):
    for axis, (a, b) in enumerate(((up, down), (left, right))):
        f = np.moveaxis(field, axis, 0)
        got = np.empty(66)
        grid.Sendrecv(np.ascontiguousarray(f[-2]), dest=b, recvbuf=got, source=a)
        f[0] = got
        grid.Sendrecv(np.ascontiguousarray(f[1]), dest=a, recvbuf=got, source=b)
        f[-1] = got
    inner = field[1:-1, 1:-1]
    inner += 0.2 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] - 4 * inner)
    most = world.allreduce(float(inner.max()), op=MPI.MAX)
    sums = rows.allgather(inner.sum())
    h.update(field.tobytes() + repr((most, sums)).encode())
    if turn % 10 == 0:
        all = world.gather(h.hexdigest()[:16])
        if world.rank == 0:
            print("turn", turn, most.hex(), *all, flush=True)
    time.sleep(0.1)
PY
srun --mpi=pmix python3 heat.py
rm heat.py
