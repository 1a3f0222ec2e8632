#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: beanstalkd: a queue with a log on disk, producers and workers with tubes, priorities, delays, buried and released jobs
# Needs: beanstalkd python3
#SBATCH --job-name=beanstalkd-queue --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
beanstalkd -l 127.0.0.1 -p 18495 -b "$dir" -f 0 &
server=$!
cat >client.py <<'PY'
import hashlib, socket, sys, threading, time

class Client:
    def __init__(self):
        while True:
            try:
                self.file = socket.create_connection(("127.0.0.1", 18495)).makefile("rwb")
                return
            except ConnectionRefusedError:
                time.sleep(0.05)

    def ask(self, line, body=None):
        self.file.write(line.encode() + b"\r\n" + (body + b"\r\n" if body is not None else b""))
        self.file.flush()
        answer = self.file.readline().split()
        if answer[0] in (b"RESERVED", b"FOUND", b"OK"):
            body = self.file.read(int(answer[-1]) + 2)[:-2]
            return answer, body
        return answer, None

done, lock = {}, threading.Lock()

def work(tube):
    c = Client()
    c.ask("watch " + tube)
    c.ask("ignore default")
    while True:
        answer, body = c.ask("reserve")
        number = int(answer[1])
        if body == b"end":
            c.ask(f"delete {number}")
            return
        n = int(body)
        with lock:
            tries = done.setdefault((tube, n), [])
            tries.append(hashlib.sha256(body).hexdigest()[:8])
        if n % 7 == 3 and len(tries) < 3:
            c.ask(f"release {number} {n} 0")
        elif n % 11 == 5 and len(tries) < 2:
            c.ask(f"bury {number} 5")
        else:
            c.ask(f"delete {number}")
        time.sleep(0.03)

producer = Client()
print("serving", flush=True)
workers = [threading.Thread(target=work, args=(f"tube{k % 2}",)) for k in range(4)]
for w in workers:
    w.start()
for n in range(160):
    producer.ask(f"use tube{n % 2}")
    producer.ask(f"put {n % 5} {1 if n % 20 == 0 else 0} 600 {len(str(n))}", str(n).encode())
    if n % 20 == 19:
        print("put", n + 1, flush=True)
    time.sleep(0.05)
want = 160 + 2 * sum(n % 7 == 3 for n in range(160)) + sum(n % 11 == 5 and n % 7 != 3 for n in range(160))
while True:
    with lock:
        if sum(map(len, done.values())) >= want:
            break
    for tube in (0, 1):
        producer.ask(f"use tube{tube}")
        producer.ask("kick 100")
    time.sleep(0.05)
for tube in (0, 0, 1, 1):
    producer.ask(f"use tube{tube}")
    producer.ask("put 1000 0 600 3", b"end")
for w in workers:
    w.join()
print("done", len(done), hashlib.sha256(repr(sorted(done.items())).encode()).hexdigest())
PY
python3 client.py
kill $server
wait $server || true
rm -r "$dir" client.py
