#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: locks of multiprocessing between forked and spawned processes: semaphores, events, arrays, a proxy's lock
# Needs: python3
#SBATCH --job-name=python-locks --ntasks=1 --output=log
set -eu
cat >locks.py <<'PY'
import ctypes, hashlib, multiprocessing as mp, queue, sys, time

def worker(me, turns, lock, slots, go, numbers, total, results, state):
    go.wait()
    for turn in range(turns):
        with slots:
            time.sleep(0.02)
            with lock, lock:
                numbers[turn % len(numbers)] += me * turn
        with total.get_lock():
            total.value += turn
    results.put((me, turns))
    state.update({me: "done"})

def run(method):
    context = mp.get_context(method)
    lock, slots, go = context.RLock(), context.BoundedSemaphore(2), context.Event()
    numbers, total = context.Array(ctypes.c_int64, 16), context.Value("q", 0)
    results = context.Queue()
    with context.Manager() as manager:
        state = manager.dict()
        workers = [context.Process(target=worker, args=(n, 40, lock, slots, go, numbers, total, results, state)) for n in range(1, 4)]
        for w in workers:
            w.start()
        print(method, "waits", go.wait(0.3), slots.acquire(timeout=1), lock.acquire(timeout=1), flush=True)
        lock.release()
        slots.release()
        go.set()
        got = sorted(results.get(timeout=120) for _ in workers)
        for w in workers:
            w.join()
        try:
            results.get(timeout=0.5)
        except queue.Empty:
            got.append("empty")
        print(method, got, [w.exitcode for w in workers], list(numbers), total.value, dict(sorted(state.items())), flush=True)

if __name__ == "__main__":
    print("begins", flush=True)
    for method in sys.argv[1:]:
        run(method)
PY
python3 locks.py fork spawn forkserver
