#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a training with checkpoints of its own, as frameworks write them: a new file, fsync, rename, a link to the latest, old ones removed
# Needs: python3-numpy
#SBATCH --job-name=own-checkpoints --ntasks=1 --output=log
set -eu
cat >train.py <<'PY'
import glob, hashlib, json, os, pickle, time
import numpy as np

print("begins", flush=True)
rng = np.random.default_rng(6)
x = rng.standard_normal((400, 30))
truth = rng.standard_normal(30)
weights, momentum = np.zeros(30), np.zeros(30)
os.mkdir("checkpoints")
with open("metrics.jsonl", "a") as metrics:
    for step in range(1, 91):
        batch = rng.integers(0, 400, 32)
        gradient = x[batch].T @ (x[batch] @ weights - x[batch] @ truth) / 32
        momentum = 0.9 * momentum + gradient
        weights = weights - 0.02 * momentum
        json.dump({"step": step, "loss": float(np.sum((weights - truth) ** 2)).hex()}, metrics)
        metrics.write("\n")
        metrics.flush()
        if step % 3 == 0:
            name = f"checkpoints/step-{step}.pkl"
            with open(name + ".tmp", "wb") as f:
                pickle.dump({"step": step, "weights": weights, "momentum": momentum, "rng": rng.bit_generator.state}, f)
                f.flush()
                os.fsync(f.fileno())
            os.replace(name + ".tmp", name)
            os.symlink(os.path.basename(name), "checkpoints/latest.new")
            os.replace("checkpoints/latest.new", "checkpoints/latest")
            for old in sorted(glob.glob("checkpoints/step-*.pkl"), key=os.path.getmtime)[:-3]:
                os.remove(old)
        if step % 15 == 0:
            with open("checkpoints/latest", "rb") as f:
                print("step", step, hashlib.sha256(f.read()).hexdigest()[:20], flush=True)
        time.sleep(0.09)
print(sorted(os.listdir("checkpoints")))
PY
python3 train.py
sha256sum metrics.jsonl checkpoints/latest
