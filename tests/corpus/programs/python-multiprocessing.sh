#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: python processes with pipes, a pool, POSIX shared memory, semaphores and a manager
# Needs: python3
#SBATCH --job-name=python-multiprocessing --ntasks=1 --output=log
set -eu
cat >processes.py <<'PY'
import hashlib, multiprocessing as mp, struct, time
from multiprocessing import shared_memory

def chain(seed):
    h = str(seed).encode()
    for _ in range(3000):
        h = hashlib.sha256(h).digest()
    time.sleep(0.05)
    return h.hex()

def filler(name, lock, pipe, count):
    shm = shared_memory.SharedMemory(name)
    for i in range(count):
        want = pipe.recv()
        with lock:
            (old,) = struct.unpack_from("q", shm.buf, want * 8)
            struct.pack_into("q", shm.buf, want * 8, old + want * i)
        pipe.send(old)
    shm.close()

def main():
    print("processes", flush=True)
    shm = shared_memory.SharedMemory(create=True, size=8 * 64)
    lock = mp.Lock()
    ends, procs = [], []
    for _ in range(2):
        here, there = mp.Pipe()
        p = mp.Process(target=filler, args=(shm.name, lock, there, 60))
        p.start()
        ends.append(here)
        procs.append(p)
    with mp.Manager() as manager, mp.Pool(2) as pool:
        table = manager.dict()
        hashes = pool.imap(chain, range(120))
        for turn in range(60):
            for n, end in enumerate(ends):
                end.send((turn * 7 + n) % 64)
                table[turn, n] = end.recv()
            table["hash", turn] = next(hashes) + next(hashes)
            if turn % 10 == 9:
                print("turn", turn + 1, sum(struct.unpack("64q", shm.buf)), flush=True)
            time.sleep(0.1)
        with open("table", "w") as f:
            for key in sorted(table.keys(), key=str):
                print(key, table[key], file=f)
    for p in procs:
        p.join()
        print("exit code", p.exitcode)
    print(struct.unpack("64q", shm.buf))
    shm.close()
    shm.unlink()

if __name__ == "__main__":
    main()
PY
python3 processes.py
sha256sum table
