#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a redis server on the first node, python clients on the second keep TCP connections to it
# Needs: redis-server python3
#SBATCH --job-name=redis-two-nodes --nodes=2 --ntasks-per-node=1 --output=log
set -eu
host=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export host
cat >server.sh <<'SH'
exec redis-server --port 6397 --bind 0.0.0.0 --protected-mode no --save '' --dir /tmp --daemonize no --logfile /dev/null
SH
cat >client.py <<'PY'
import hashlib, os, socket, threading, time

class Redis:
    def __init__(self):
        while True:
            try:
                self.s = socket.create_connection((os.environ["host"], 6397))
                break
            except OSError:
                time.sleep(0.05)
        self.f = self.s.makefile("rb")

    def reply(self):
        line = self.f.readline().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            n = int(rest)
            return None if n < 0 else self.f.read(n + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind in b"+:>":
            return rest
        raise RuntimeError(line)

    def send(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def __call__(self, *words):
        self.send(*words)
        return self.reply()

def work(n):
    r, h = Redis(), hashlib.sha256()
    for i in range(80):
        value = hashlib.sha256(b"%d %d" % (n, i)).digest() * (1 + i * 31 % 300)
        r("SET", f"{n}:{i % 20}", value)
        for k in range(0, i, 7): # a pipeline: all requests first, then all answers
            r.send("GETRANGE", f"{n}:{k % 20}", i, i + 64)
        for k in range(0, i, 7):
            h.update(r.reply())
        r("RPUSH", "queue", f"{n}-{i}")
        time.sleep(0.08)
    digests[n] = h.hexdigest()

digests = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for t in threads:
    t.start()
r, taken = Redis(), []
while len(taken) < 240:
    taken.append(r("BLPOP", "queue", 0)[1].decode()) # blocks on the server's side
    if len(taken) % 40 == 0:
        print("taken", len(taken), flush=True)
for t in threads:
    t.join()
for n in sorted(digests):
    print(n, digests[n])
print(hashlib.sha256(" ".join(sorted(taken)).encode()).hexdigest())
r.send("SHUTDOWN", "NOSAVE")
PY
echo "server and clients"
srun --nodes=1 --ntasks=1 --relative=0 bash server.sh &
srun --nodes=1 --ntasks=1 --relative=1 python3 client.py | tee answers
wait
