#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: LMDB: a table in a mapped file that one process writes and three others read in transactions of their own, locks in a mapped file
# Needs: python3-lmdb
#SBATCH --job-name=lmdb --ntasks=1 --output=log
set -eu
cat >table.py <<'PY'
import hashlib, multiprocessing, os, time
import lmdb

def digest(*a): return hashlib.sha256(repr(a).encode()).digest()

def reader(n, go, seen):
    env = lmdb.open("table", max_dbs=4, map_size=1 << 26, readonly=True, lock=True)
    db = env.open_db(b"rows")
    while True:
        turn = go.recv()
        if turn is None: break
        with env.begin(db=db) as txn: # a snapshot that lasts while the writer goes on
            h = hashlib.sha256()
            with txn.cursor() as c:
                for i, (k, v) in enumerate(c):
                    h.update(k + v)
                    if i % 500 == 0: time.sleep(0.002)
            seen.send((turn, n, txn.stat()["entries"], h.hexdigest()))
    env.close()

def main():
    env = lmdb.open("table", max_dbs=4, map_size=1 << 26, sync=True)
    rows, dups = env.open_db(b"rows"), env.open_db(b"dups", dupsort=True)
    pipes = []
    for n in range(3):
        (a, b), (c, d) = multiprocessing.Pipe(), multiprocessing.Pipe()
        p = multiprocessing.Process(target=reader, args=(n, b, c))
        pipes.append((p, a, d))
    for p, _, _ in pipes: p.start()
    print("writing", flush=True)
    with open("seen", "w") as out:
        for turn in range(1, 61):
            with env.begin(write=True) as txn:
                for i in range(100):
                    k = b"%06d" % ((turn * 7919 + i * 104729) % 3000)
                    if i % 7 == 6: txn.delete(k, db=rows)
                    else: txn.put(k, digest(turn, i) * 3, db=rows)
                    txn.put(k[:3], digest(turn, i)[:8], db=dups)
            try:
                with env.begin(write=True, db=rows) as txn:
                    txn.put(b"never", b"x"); raise KeyError
            except KeyError: pass
            for _, go, _ in pipes: go.send(turn)
            for _, _, seen in pipes: print(*seen.recv(), file=out, flush=True)
            if turn % 12 == 0:
                with env.begin() as txn: print("turn", turn, txn.stat(rows)["entries"], txn.stat(dups)["entries"], flush=True)
            time.sleep(0.05)
    for p, go, _ in pipes: go.send(None); p.join()
    os.mkdir("copy.d")
    env.copy("copy.d", compact=True)
    with lmdb.open("copy.d", max_dbs=4, readonly=True) as copy, copy.begin() as txn:
        print("the copy has", txn.stat(copy.open_db(b"rows", txn=txn))["entries"], flush=True)
    env.close()

if __name__ == "__main__":
    main()
PY
python3 table.py
rm -r table copy.d
sha256sum seen
