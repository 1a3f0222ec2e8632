#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: redis-py's clients of a redis server outside of the job: three threads on a pool of connections, pipelines, transactions with WATCH
# Needs: python3-redis
# Site: redis
#SBATCH --job-name=redis-outside --ntasks=1 --output=log
set -eu
cat >work.py <<'PY'
import hashlib, os, threading, time
import redis

r = redis.Redis(host="ctl", decode_responses=True) # with its defaults: a command is tried again after an error of the connection
mine = "corpus:" + os.environ["SLURM_JOB_ID"]
print("connected:", r.ping(), flush=True)

def cache(n):
    h = hashlib.sha256()
    for i in range(90):
        value = hashlib.sha256(b"%d %d" % (n, i)).hexdigest() * (1 + i * 7 % 40)
        r.set(f"{mine}:{n}:{i % 15}", value, ex=3600)
        with r.pipeline(transaction=False) as pipe:
            for k in range(min(i + 1, 15)):
                pipe.get(f"{mine}:{n}:{k}")
            for answer in pipe.execute():
                h.update(answer.encode())
        r.hset(f"{mine}:done", f"{n}-{i}", h.hexdigest()[:12])
        time.sleep(0.08)
    digests[n] = h.hexdigest()

def account():
    for i in range(90):
        with r.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(f"{mine}:balance")
                    last, total = (pipe.get(f"{mine}:balance") or "-1 0").split()
                    if int(last) >= i: # this turn's transaction has been done, and its answer was lost
                        break
                    pipe.multi()
                    pipe.set(f"{mine}:balance", f"{i} {int(total) + i * i}")
                    pipe.zadd(f"{mine}:turns", {str(i): i})
                    pipe.execute()
                    break
                except redis.WatchError:
                    continue
        if i % 30 == 29:
            print("turn", i + 1, r.get(f"{mine}:balance"), flush=True)
        time.sleep(0.08)

digests = {}
threads = [threading.Thread(target=cache, args=(n,)) for n in range(2)] + [threading.Thread(target=account)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for n in sorted(digests):
    print(n, digests[n])
done = r.hgetall(f"{mine}:done")
print(len(done), hashlib.sha256(repr(sorted(done.items())).encode()).hexdigest(), r.zcard(f"{mine}:turns"))
r.delete(*r.keys(mine + ":*"))
PY
python3 work.py
