#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: dask: a bag over processes, and a graph on a cluster of workers of this job
# Needs: python3-dask, python3-distributed
#SBATCH --job-name=python-dask --ntasks=1 --output=log
set -eu
cat >graph.py <<'PY'
import hashlib, time
import dask
import dask.bag
from dask.distributed import Client, LocalCluster

def chain(n):
    time.sleep(0.05)
    return hashlib.sha256(str(n).encode()).hexdigest()

def join(parts):
    return hashlib.sha256("".join(parts).encode()).hexdigest()

def main():
    print("begins", flush=True)
    bag = dask.bag.from_sequence(range(60), npartitions=6).map(chain)
    print("bag", join(bag.compute(scheduler="processes", num_workers=2)), flush=True)
    with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
        for turn in range(3):
            parts = [dask.delayed(chain)((turn, n)) for n in range(40)]
            print("graph", turn, client.compute(dask.delayed(join)(parts)).result(), flush=True)

if __name__ == "__main__":
    main()
PY
python3 graph.py 2>warnings
rm -rf warnings dask-scratch-space dask-worker-space
