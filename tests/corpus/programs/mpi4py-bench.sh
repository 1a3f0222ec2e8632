#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: the benchmarks of mpi4py by srun --mpi=pmix, two ranks on each of two nodes: latency and bandwidth between two nodes by size, of bytes and of pickled arrays, and a ring
# Needs: openmpi-bin python3-mpi4py python3-numpy
# First: --singularity
# Without it Slurm has to serve PMIx, and that of Debian cannot.
#SBATCH --job-name=mpi4py-bench --nodes=2 --ntasks=4 --overcommit --output=log
set -eu
export OPENBLAS_NUM_THREADS=1
echo "begins"
# Neighbours are on different nodes. Of each line only what is no time and no speed.
export SLURM_DISTRIBUTION=cyclic
srun --mpi=pmix python3 -m mpi4py.bench pingpong --loop 400 --loop-large 100 --max-size 4194304 | awk '!/^#/ { print "bytes", $1, $NF; fflush() }'
srun --mpi=pmix python3 -m mpi4py.bench pingpong --pickle --outband --loop 100 --loop-large 50 --max-size 1048576 | awk '!/^#/ { print "pickled", $1, $NF; fflush() }'
for size in 1 1024 65536 1048576; do
	srun --mpi=pmix python3 -m mpi4py.bench ringtest --size $size --loop 60 | sed 's/= [^ ]* seconds/= some seconds/'
done
