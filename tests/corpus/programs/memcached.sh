#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: memcached with four threads, python clients over TCP on the loopback address
# Needs: memcached python3
#SBATCH --job-name=memcached --ntasks=1 --output=log
set -eu
memcached -l 127.0.0.1 -p 11397 -t 4 -m 16 &
echo "serving"
cat >client.py <<'PY'
import hashlib, socket, sys, time
n, h = int(sys.argv[1]), hashlib.sha256()
while True:
    try:
        s = socket.create_connection(("127.0.0.1", 11397))
        break
    except OSError:
        time.sleep(0.05)
f = s.makefile("rb")
for i in range(80):
    body = hashlib.sha256(b"%d %d" % (n, i)).hexdigest().encode() * (i % 40 + 1)
    s.sendall(b"set %d-%d 0 0 %d\r\n%s\r\n" % (n, i % 16, len(body), body))
    h.update(f.readline())
    s.sendall(b"get %d-%d\r\n" % (n, i * 5 % 16))
    while (line := f.readline()) != b"END\r\n":
        h.update(line)
    if i % 20 == 19:
        print(n, i + 1, h.hexdigest()[:20], flush=True)
    time.sleep(0.08)
s.close()
PY
for n in 1 2 3; do python3 client.py $n >client.$n & pids[n]=$!; done
for n in 1 2 3; do wait "${pids[n]}"; done
kill %1
wait %1 || echo "server ended with $?"
tail -qn 1 client.?
