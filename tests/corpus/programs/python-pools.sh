#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: pools of processes in all start methods, with chunks, callbacks and workers that are replaced
# Needs: python3
#SBATCH --job-name=python-pools --ntasks=1 --output=log
set -eu
cat >pools.py <<'PY'
import hashlib, multiprocessing, os, time

def chain(n):
    h = b"%d" % n
    for _ in range(500):
        h = hashlib.sha256(h).digest()
    time.sleep(0.03)
    return n, h.hex()

def fails(n):
    raise ValueError(f"no {n}")

def begin(lock, counter):
    with lock:
        counter.value += 1

def run(method):
    context = multiprocessing.get_context(method)
    lock, counter, called = context.Lock(), context.Value("i", 0), []
    with context.Pool(2, begin, (lock, counter), maxtasksperchild=12) as pool:
        waiting = [pool.apply_async(chain, (n,), callback=called.append) for n in range(20)]
        mapped = pool.map(chain, range(100, 130), chunksize=3)
        unordered = sorted(pool.imap_unordered(chain, range(200, 230), chunksize=2))
        stars = pool.starmap(pow, [(n, n) for n in range(1, 10)])
        try:
            pool.apply(fails, (7,))
        except ValueError as e:
            print(method, "raised", e)
        found = [w.get() for w in waiting] + mapped + unordered
        pool.close()
        pool.join()
    print(method, len(called), stars[-1], counter.value >= 2, hashlib.sha256(repr(found).encode()).hexdigest(), flush=True)

if __name__ == "__main__":
    print("begins", flush=True)
    for method in ("fork", "spawn", "forkserver"):
        run(method)
PY
python3 pools.py
