#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: numpy: matrix products, FFT, a random walk and an in-place memory map on disk
# Needs: python3-numpy
#SBATCH --job-name=numpy-linalg --ntasks=1 --output=log
set -eu
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
cat >linalg.py <<'PY'
import hashlib, time
import numpy as np

rng = np.random.default_rng(42)
a = rng.standard_normal((240, 240))
x = rng.standard_normal(240)
disk = np.memmap("state.bin", dtype=np.float64, mode="w+", shape=(60, 240))
print("iterating", flush=True)
for turn in range(60):
    a = a @ a.T
    a /= np.abs(a).max()
    q, r = np.linalg.qr(a + np.eye(240))
    x = np.fft.irfft(np.fft.rfft(q @ x) * 1.01, n=240) + rng.normal(size=240) * 1e-3
    disk[turn] = x
    if turn % 10 == 9:
        disk.flush()
        print(turn + 1, hashlib.sha256(x.tobytes()).hexdigest()[:24], float(x.sum()).hex(), flush=True)
    time.sleep(0.1)
disk.flush()
PY
python3 linalg.py
sha256sum state.bin
