#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: LevelDB under Python: batches, snapshots, iterators that last over writes, compactions by a thread in the background, repairs
# Needs: python3-plyvel
#SBATCH --job-name=leveldb --ntasks=1 --output=log
set -eu
cat >table.py <<'PY'
import hashlib, threading, time
import plyvel

def digest(*a): return hashlib.sha256(repr(a).encode()).digest()

db = plyvel.DB("table", create_if_missing=True, write_buffer_size=64 << 10, bloom_filter_bits=10, max_file_size=128 << 10)
kept = {}
print("writing", flush=True)
def hammer(turn, w, sums):
    h = hashlib.sha256()
    for i in range(300): h.update(db.get(b"%06d" % ((turn * 31 + w * 7 + i) % 4000)) or b"-")
    sums[w] = h.hexdigest()[:16]
with open("seen", "w") as out:
    for turn in range(1, 61):
        long = db.iterator(include_value=False) # sees what was there when it began
        first = next(long, None)
        with db.write_batch(transaction=True, sync=turn % 10 == 0) as b:
            for i in range(400):
                k = b"%06d" % ((turn * 7919 + i * 104729) % 4000)
                if i % 9 == 8: b.delete(k)
                else: b.put(k, digest(turn, i) * 4)
        sums = {}
        ts = [threading.Thread(target=hammer, args=(turn, w, sums)) for w in range(3)]
        for t in ts: t.start()
        for t in ts: t.join()
        if turn % 6 == 0: kept[turn] = db.snapshot()
        if turn % 15 == 0: db.compact_range()
        print(turn, first, sum(1 for _ in long), sorted(sums.items()), file=out, flush=True)
        long.close()
        if turn % 12 == 0: print("turn", turn, sum(1 for _ in db), flush=True)
        time.sleep(0.08)
    for turn, s in kept.items():
        h = hashlib.sha256()
        for k, v in s: h.update(k + v)
        print("snapshot", turn, h.hexdigest(), file=out)
        s.close()
db.close()
plyvel.repair_db("table")
db = plyvel.DB("table")
print("repaired:", sum(1 for _ in db), flush=True)
db.close()
PY
python3 table.py
rm -r table
sha256sum seen
