#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: pandas: a CSV read in chunks, joins, groups, rolling windows, categories, a resampled time series
# Needs: python3-pandas
#SBATCH --job-name=pandas-tables --ntasks=1 --output=log
set -eu
echo "writing"
cat >tables.py <<'PY'
import hashlib, time
import numpy as np
import pandas as pd

rng = np.random.default_rng(21)
n = 40000
pd.DataFrame({
    "when": pd.date_range("2024-01-01", periods=n, freq="1min"),
    "who": rng.integers(0, 200, n),
    "what": rng.choice(["read", "write", "seek", "close"], n),
    "amount": rng.gamma(2, 10, n).round(3),
}).to_csv("events.csv", index=False)
people = pd.DataFrame({"who": range(200), "group": rng.choice(list("abcdef"), 200)})
print("read in chunks", flush=True)
parts, h = [], hashlib.sha256()
for k, chunk in enumerate(pd.read_csv("events.csv", parse_dates=["when"], chunksize=800)):
    chunk["what"] = chunk["what"].astype("category")
    joined = chunk.merge(people, on="who")
    part = joined.groupby(["group", "what"], observed=True)["amount"].agg(["sum", "count", "median"])
    part["roll"] = joined["amount"].rolling(50).mean().iloc[-1]
    h.update(part.to_csv().encode())
    parts.append(part)
    if k % 10 == 9:
        print("chunk", k + 1, len(joined), h.hexdigest()[:20], flush=True)
    time.sleep(0.12)
total = pd.concat(parts).groupby(level=[0, 1], observed=True)[["sum", "count"]].sum()
total.to_csv("total.csv")
whole = pd.read_csv("events.csv", parse_dates=["when"], index_col="when")
whole.resample("6h")["amount"].agg(["count", "mean", "std", "max"]).to_csv("resampled.csv")
print(total.unstack()["count"].to_string())
PY
python3 tables.py
sha256sum events.csv total.csv resampled.csv
