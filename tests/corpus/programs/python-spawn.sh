#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: processes started by spawn and by forkserver, with queues, events, a condition and a barrier
# Needs: python3
#SBATCH --job-name=python-spawn --ntasks=1 --output=log
set -eu
cat >spawn.py <<'PY'
import hashlib, multiprocessing, sys, time

def worker(n, tasks, results, ready, done):
    ready.wait()
    for item in iter(tasks.get, None):
        time.sleep(0.04)
        results.put((item, hashlib.sha256(b"%d" % item).hexdigest()))
    with done:
        done.notify_all()

def run(method):
    context = multiprocessing.get_context(method)
    tasks, results, ready, done = context.Queue(), context.SimpleQueue(), context.Barrier(3), context.Condition()
    workers = [context.Process(target=worker, args=(n, tasks, results, ready, done)) for n in range(2)]
    for w in workers:
        w.start()
    ready.wait()
    for item in range(150):
        tasks.put(item)
    for _ in workers:
        tasks.put(None)
    got = dict(results.get() for _ in range(150))
    for w in workers:
        w.join()
    print(method, hashlib.sha256("".join(got[n] for n in range(150)).encode()).hexdigest(), [w.exitcode for w in workers], flush=True)

if __name__ == "__main__":
    print("begins", flush=True)
    for method in sys.argv[1:]:
        run(method)
PY
python3 spawn.py spawn forkserver
