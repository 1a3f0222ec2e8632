#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: python threads with queues, a condition, an event, a barrier and thread-local data
# Needs: python3
#SBATCH --job-name=python-threads --ntasks=1 --output=log
set -eu
cat >threads.py <<'PY'
import hashlib, queue, threading, time

work, results = queue.Queue(maxsize=8), {}
lock, local = threading.Lock(), threading.local()
even = threading.Condition()
turns, started = 0, threading.Event()
meeting = threading.Barrier(4)

def worker(number):
    local.chain = b"worker"
    started.wait()
    while True:
        item = work.get()
        if item is None:
            break
        h = str(item).encode()
        for _ in range(2000):
            h = hashlib.sha256(h).digest()
        with lock:
            results[item] = h.hex()
        time.sleep(0.02)
        work.task_done()
    meeting.wait()

def referee():
    global turns
    for _ in range(100):
        with even:
            even.wait_for(lambda: turns % 2 == 1)
            turns += 1
            even.notify_all()

threads = [threading.Thread(target=worker, args=(n,)) for n in range(3)]
threads.append(threading.Thread(target=referee))
for t in threads:
    t.start()
print("threads started", flush=True)
started.set()
for item in range(300):
    work.put(item)
    if item % 3 == 0:
        with even:
            turns += 1
            even.notify_all()
            even.wait_for(lambda: turns % 2 == 0)
    if item % 50 == 49:
        print("handed out", item + 1, flush=True)
    time.sleep(0.02)
for _ in range(3):
    work.put(None)
meeting.wait()
for t in threads:
    t.join()
print("turns", turns)
with open("results", "w") as f:
    for item in sorted(results):
        print(item, results[item], file=f)
PY
python3 threads.py
sha256sum results
