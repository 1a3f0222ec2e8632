#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: shared memory of a manager, numpy arrays in it, processes that find it by its name
# Needs: python3 python3-numpy
#SBATCH --job-name=python-shared --ntasks=1 --output=log
set -eu
export OPENBLAS_NUM_THREADS=1
cat >shared.py <<'PY'
import hashlib, multiprocessing, time
from multiprocessing import shared_memory
from multiprocessing.managers import SharedMemoryManager
import numpy as np

def smooth(name, shape, first, last, barrier, turns):
    block = shared_memory.SharedMemory(name=name)
    field = np.ndarray(shape, dtype=np.float64, buffer=block.buf)
    for turn in range(turns):
        now, later = field[turn % 2], field[1 - turn % 2]
        for r in range(first, last):
            later[r] = (now[r - 1] + now[r] + now[(r + 1) % shape[1]]) / 3
        time.sleep(0.1)
        barrier.wait()
    del field, now, later
    block.close()

if __name__ == "__main__":
    print("begins", flush=True)
    shape = (2, 64, 256)
    context = multiprocessing.get_context("spawn")
    with SharedMemoryManager() as manager:
        block = manager.SharedMemory(int(np.prod(shape)) * 8)
        names = manager.ShareableList(["field", 3.5, b"bytes", None, 2**40])
        field = np.ndarray(shape, dtype=np.float64, buffer=block.buf)
        field[:] = np.random.default_rng(4).random(shape)
        barrier = context.Barrier(3)
        workers = [context.Process(target=smooth, args=(block.name, shape, n * 32, n * 32 + 32, barrier, 60)) for n in range(2)]
        for w in workers:
            w.start()
        for turn in range(60):
            barrier.wait()
            if turn % 12 == 11:
                names[1] += 1
                print("turn", turn + 1, list(names), flush=True)
        for w in workers:
            w.join()
        print(hashlib.sha256(field.tobytes()).hexdigest(), [w.exitcode for w in workers])
        del field
PY
python3 shared.py
