#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Numba: functions compiled while the program runs, loops on two threads, vectorised functions, a cache on disk, callbacks
# Needs: python3-numba python3-numpy
#SBATCH --job-name=numba-kernels --ntasks=1 --output=log
set -eu
export NUMBA_NUM_THREADS=2 NUMBA_CACHE_DIR=cache
cat >kernels.py <<'PY'
import hashlib, sys, time
import numba
import numpy as np

@numba.njit(cache=True)
def sieve(n):
    mark = np.ones(n, np.bool_)
    mark[:2] = False
    for i in range(2, int(n ** 0.5) + 1):
        if mark[i]:
            mark[i * i::i] = False
    return mark.sum()

@numba.njit(parallel=True)
def julia(size, c):
    out = np.zeros((size, size), np.int32)
    for y in numba.prange(size):
        for x in range(size):
            z = complex(3 * x / size - 1.5, 3 * y / size - 1.5)
            n = 0
            while abs(z) < 2 and n < 100:
                z, n = z * z + c, n + 1
            out[y, x] = n
    return out

@numba.vectorize(["int64(int64, int64)"])
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a

@numba.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def smooth(a, out):
    for i in range(a.size):
        out[i] = (a[i - 1] + a[i] + a[(i + 1) % a.size]) / 3

@numba.njit
def words(n):
    d = numba.typed.Dict.empty(numba.types.unicode_type, numba.types.int64)
    for i in range(n):
        k = "w" + str(i * i % 97)
        d[k] = d.get(k, 0) + i
    return sum([len(k) * v for k, v in d.items()])

print("starting, the", sys.argv[1], "time", flush=True)
h, row = hashlib.sha256(), np.linspace(0, 1, 500)
for turn in range(1, 41):
    h.update(julia(120, complex(-0.8 + turn / 100, 0.156)).tobytes())
    h.update(gcd(np.arange(1, 2000), turn * 360).tobytes())
    row = smooth(row * row)
    made = numba.njit(eval(f"lambda x: x * {turn} + {turn * turn}"))  # another compilation each turn
    h.update(repr((sieve(turn * 5000), made(turn), words(turn * 10), row[250].hex())).encode())
    if turn % 10 == 0:
        print("turn", turn, h.hexdigest()[:16], flush=True)
    time.sleep(0.05)
PY
python3 kernels.py first
python3 kernels.py second
rm -r kernels.py cache
