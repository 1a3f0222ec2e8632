#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: joblib with processes (loky) and memory-mapped arrays
# Needs: python3-joblib, python3-numpy
#SBATCH --job-name=python-joblib --ntasks=1 --output=log
set -eu
cat >jobs.py <<'PY'
import time
import numpy as np
from joblib import Parallel, delayed

def row(matrix, n):
    time.sleep(0.08)
    return float(np.round(np.sort(matrix[n]) @ np.arange(matrix.shape[1]), 6))

def main():
    print("begins", flush=True)
    matrix = np.random.default_rng(7).integers(0, 1000, (400, 1000)).astype(float)
    with Parallel(n_jobs=2, max_nbytes="1M") as parallel:
        for part in range(4):
            got = parallel(delayed(row)(matrix, n) for n in range(part * 50, part * 50 + 50))
            print(part, sum(got), flush=True)

if __name__ == "__main__":
    main()
PY
python3 jobs.py
