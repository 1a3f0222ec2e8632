#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ProcessPoolExecutor and ThreadPoolExecutor of concurrent.futures
# Needs: python3
#SBATCH --job-name=python-futures --ntasks=1 --output=log
set -eu
cat >futures.py <<'PY'
import hashlib, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed

def chain(n):
    h = str(n).encode()
    for _ in range(2000):
        h = hashlib.sha256(h).digest()
    time.sleep(0.06)
    return n, h.hex()

def main():
    print("begins", flush=True)
    with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(3) as threads:
        for n, digest in processes.map(chain, range(100), chunksize=3):
            if n % 20 == 0:
                print(n, digest, flush=True)
        found = sorted(f.result() for f in as_completed([processes.submit(chain, n) for n in range(100, 160)]))
        late = sorted(threads.map(chain, range(160, 200)))
    for n, digest in found + late:
        print(n, digest)

if __name__ == "__main__":
    main()
PY
python3 futures.py
