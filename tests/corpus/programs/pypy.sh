#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PyPy: loops compiled as they run, its moving collector with weak references and finalizers, greenlets, forks, big dictionaries
# Needs: pypy3
#SBATCH --job-name=pypy --ntasks=1 --output=log
set -eu
export PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
cat >swarm.py <<'PY'
import gc, hashlib, json, os, sys, threading, time, weakref
from collections import Counter, OrderedDict
import greenlet

class Node:
    alive = 0
    def __init__(self, n): self.n = n; Node.alive += 1
    def __del__(self): Node.alive -= 1

def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)

def walk(turn, back):
    for i in range(500):
        back.switch(mix(turn * 500 + i) & 0xFFFF)
    return -1

def by_greenlet(turn):
    me = greenlet.getcurrent()
    other = greenlet.greenlet(walk)
    total, value = 0, other.switch(turn, me)
    while value >= 0:
        total += value
        value = other.switch()
    return total

def by_fork(turn):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, hashlib.sha256(str(mix(turn)).encode()).hexdigest().encode())
        os._exit(turn % 100)
    os.close(w)
    text = os.read(r, 64).decode(); os.close(r)
    return text[:16], os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

lock, counts = threading.Lock(), Counter()
def by_thread(turn, w):
    sums = sum(mix(turn * w + i) for i in range(30000))
    with lock: counts[sums % 10] += 1

refs = weakref.WeakValueDictionary()
print("running on", sys.implementation.name, flush=True)
with open("sums", "w") as out:
    for turn in range(1, 61):
        threads = [threading.Thread(target=by_thread, args=(turn, w)) for w in (1, 2, 3)]
        for t in threads: t.start()
        ring = [Node(i) for i in range(2000)]
        for a, b in zip(ring, ring[1:] + ring[:1]): a.next = b
        refs[turn] = ring[0]
        for t in threads: t.join()
        del ring, a, b
        row = [turn, by_greenlet(turn), *by_fork(turn), sorted(counts.items())]
        print(json.dumps(row), file=out, flush=True)
        if turn % 12 == 0:
            for _ in range(3): gc.collect()
            print("turn", turn, row[1], "some gone" if Node.alive < 2000 * turn else "none gone", flush=True)
        time.sleep(0.05)
PY
pypy3 swarm.py
sha256sum sums
