#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Arrow: partitioned Parquet files written and scanned with threads, streams of records through a pipe to a child
# Needs: python3-pyarrow
#SBATCH --job-name=pyarrow-parquet --ntasks=1 --output=log
set -eu
cat >arrow.py <<'PY'
import hashlib, os, threading, time
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

pa.set_cpu_count(2)
print("starting", flush=True)

def table(turn, rows=5000):
    n = pa.array(range(turn * rows, (turn + 1) * rows))
    return pa.table({"n": n, "kind": pc.cast(pc.bit_wise_and(n, 7), pa.int8()), "word": pc.cast(pc.multiply(n, n), pa.string()),
                     "list": pa.array([[k, k + 1] for k in range(rows)])})

def digest(t):
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, t.schema) as out:
        out.write_table(t.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]

there, back = os.pipe(), os.pipe()
child = os.fork()
if child == 0:  # reads batches from one pipe, and answers on the other
    os.close(there[1])
    os.close(back[0])
    with ipc.open_stream(os.fdopen(there[0], "rb")) as source, os.fdopen(back[1], "w") as answers:
        for batch in source:
            print(batch.num_rows, sum(batch.column(0).to_pylist()), file=answers, flush=True)
    os._exit(0)
os.close(there[0])
os.close(back[1])
out = ipc.new_stream(os.fdopen(there[1], "wb", buffering=0), table(0).schema)
answers = os.fdopen(back[0])
for turn in range(30):
    t = table(turn)
    for batch in t.to_batches(max_chunksize=2500):
        out.write_batch(batch)
    told = [answers.readline().strip() for _ in range(2)]
    ds.write_dataset(t, "data", format="parquet", partitioning=["kind"], existing_data_behavior="overwrite_or_ignore",
                     basename_template=f"part-{turn}-{{i}}.parquet", use_threads=False)
    if turn % 5 == 4:
        data = ds.dataset("data", partitioning=ds.partitioning(pa.schema([("kind", pa.int8())])))
        some = data.to_table(filter=(pc.bit_wise_and(pc.field("n"), 15) == 3) & (pc.field("kind") > 2), columns=["n", "word", "kind"]).sort_by("n")
        groups = data.to_table().group_by("kind").aggregate([("n", "sum"), ("word", "max")]).sort_by("kind")
        print("turn", turn + 1, told, data.count_rows(), digest(some), digest(groups), flush=True)
    time.sleep(0.15)
out.close()
answers.close()
print("child ended with", os.waitpid(child, 0)[1])
pq.write_table(ds.dataset("data").to_table().sort_by("n"), "all.parquet", compression="zstd", row_group_size=20000)
print(pq.read_metadata("all.parquet").num_row_groups, digest(pq.read_table("all.parquet", memory_map=True)))
PY
python3 arrow.py
rm -r arrow.py data all.parquet
