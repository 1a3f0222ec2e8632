#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a loop with the progress bar of tqdm, and one over a pool of processes
# Needs: python3-tqdm
#SBATCH --job-name=python-tqdm --ntasks=1 --output=log
set -eu
cat >bars.py <<'PY'
import hashlib, time
from multiprocessing import Pool
from tqdm import tqdm, trange

def work(n):
    time.sleep(0.05)
    return hashlib.sha256(str(n).encode()).hexdigest()

if __name__ == "__main__":
    print("begins", flush=True)
    total = 0
    for n in trange(60):
        total += n * n
        time.sleep(0.1)
    print("squares", total, flush=True)
    with Pool(2) as pool:
        found = list(tqdm(pool.imap(work, range(120)), total=120))
    print("hashes", hashlib.sha256("".join(found).encode()).hexdigest())
PY
python3 bars.py 2>bars
tr '\r' '\n' <bars | grep -c 100%
rm bars # has times in it
