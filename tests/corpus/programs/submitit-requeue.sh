#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a job that requeues itself as submitit's do: on SIGUSR2 the function's object is pickled, Slurm is asked for a requeue, and the task exits
# Needs: python3
#SBATCH --job-name=submitit-requeue --ntasks=1 --signal=USR2@90 --output=log
set -eu
cat >work.py <<'PY'
import hashlib

class Work:
    """What the user submits: the number of turns and the digest change together, in one assignment."""

    def __init__(self):
        self.state = (0, b"begin")
        self.resumed = False

    def advance(self):
        turn, digest = self.state
        for _ in range(4000):
            digest = hashlib.sha256(digest).digest()
        self.state = (turn + 1, digest)

    def __call__(self):
        import time
        while self.state[0] < 100:
            self.advance()
            time.sleep(0.08)
        return self.state[1].hex()
PY
cat >task.py <<'PY'
import os, pickle, signal, subprocess, sys

job, rank = os.environ["SLURM_JOB_ID"], int(os.environ["SLURM_PROCID"])
with open("submitted.pkl", "rb") as f:
    function = pickle.load(f)

def save(name, what):
    with open(name + ".save_tmp", "wb") as f:
        pickle.dump(what, f)
    os.rename(name + ".save_tmp", name)

def checkpoint_and_requeue(signum, frame):
    if rank == 0:
        function.resumed = True
        save("submitted.pkl", function)
        subprocess.check_call(["scontrol", "requeue", job], timeout=60)
        sys.exit(-1)

def bypass(signum, frame):
    pass

signal.signal(signal.SIGUSR2, checkpoint_and_requeue)
signal.signal(signal.SIGTERM, bypass)
signal.signal(signal.SIGCONT, bypass)
if rank == 0 and not function.resumed:
    print("begins", flush=True)
save("result.pkl", ("success", function()))
PY
# submitit does this before it submits the script.
[ -e submitted.pkl ] || python3 -c 'import pickle, work; pickle.dump(work.Work(), open("submitted.pkl", "wb"))'
srun --unbuffered python3 -u task.py
python3 -c 'import pickle; print(*pickle.load(open("result.pkl", "rb")))'
rm -r submitted.pkl __pycache__
