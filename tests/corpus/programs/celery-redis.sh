#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Celery: a worker with two processes on a redis of the job's own, groups, chains, chords, retries, results
# Needs: python3-celery python3-redis redis-server
#SBATCH --job-name=celery-redis --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
redis-server --port 18501 --bind 127.0.0.1 --save '' --dir "$dir" >/dev/null &
redis=$!
cat >tasks.py <<'PY'
import hashlib, time
from celery import Celery

app = Celery("tasks", broker="redis://127.0.0.1:18501/0", backend="redis://127.0.0.1:18501/1")
app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=2)

@app.task
def digest(n):
    time.sleep(0.05)
    return hashlib.sha256(str(n).encode()).hexdigest()

@app.task
def join(parts):
    return hashlib.sha256("".join(parts).encode()).hexdigest()

@app.task
def add(a, b):
    return a + b

@app.task(bind=True, max_retries=3, default_retry_delay=0.2)
def stubborn(self, n):
    if self.request.retries < 2:
        raise self.retry()
    return f"{n} after {self.request.retries}"

@app.task
def fail():
    raise ValueError("as it should")
PY
cat >client.py <<'PY'
from celery import chain, chord, group
from tasks import add, digest, fail, join, stubborn

print("begins", flush=True)
for turn in range(6):
    print("group", turn, group(digest.s(f"{turn} {n}") for n in range(20))().get(timeout=300)[-1][:16], flush=True)
    print("chain", chain(add.s(turn, 4), add.s(16), add.s(100))().get(timeout=300), flush=True)
    print("chord", chord((digest.s(n + turn) for n in range(10)), join.s())().get(timeout=300)[:16], flush=True)
    print("again", stubborn.delay(turn).get(timeout=300), flush=True)
    try:
        fail.delay().get(timeout=300)
    except ValueError as e:
        print("failed", e, flush=True)
PY
python3 -m celery -A tasks worker --concurrency=2 --loglevel=error --without-gossip --without-mingle >worker 2>&1 &
worker=$!
python3 client.py
kill $worker
wait $worker || true
kill $redis
wait $redis || true
rm -rf "$dir" tasks.py client.py worker __pycache__
