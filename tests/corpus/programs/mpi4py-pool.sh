#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: mpi4py.futures: a pool of MPI ranks on two nodes works on tasks of different length, as a manager hands them out
# Needs: openmpi-bin python3-mpi4py
#SBATCH --job-name=mpi4py-pool --nodes=2 --ntasks-per-node=1 --output=log
set -eu
# By default it cannot decide which of lo and eth0 leads to the other node.
export OMPI_MCA_btl_tcp_if_include=eth0
cat >pool.py <<'PY'
import hashlib, time
from mpi4py.futures import MPIPoolExecutor

def work(n):
    time.sleep(0.02 + n % 5 * 0.02)
    h = hashlib.sha256(b"%d" % n)
    for _ in range(2000):
        h = hashlib.sha256(h.digest())
    return n, h.hexdigest()

if __name__ == "__main__":
    print("begins", flush=True)
    with MPIPoolExecutor() as pool, open("answers", "w") as out:
        for n, digest in pool.map(work, range(200)):
            print(n, digest, file=out, flush=True)
            if n % 40 == 39:
                print("task", n + 1, digest[:16], flush=True)
        print("unordered", len(set(pool.map(work, range(40), unordered=True, chunksize=4))))
PY
mpirun.openmpi -n 3 --oversubscribe --map-by node python3 -m mpi4py.futures pool.py 2>complaints
sha256sum answers
