# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# What Lightning (trainer/connectors/signal_connector.py) does: on SIGUSR1 it saves, has Slurm
# requeue the job and trains on; on SIGTERM it stops at the next batch.
import json
import os
import signal
import subprocess
import sys
import time

SAVED = "hpc_ckpt.%s.json" % os.environ["SLURM_JOB_ID"]
received_sigterm = False
step, total = 0, 0
if os.path.exists(SAVED):
    with open(SAVED) as f:
        step, total = json.load(f)


def requeue(signum, frame):
    print("saved at", step, flush=True)
    with open(SAVED + ".new", "w") as f:
        json.dump([step, total], f)
    os.rename(SAVED + ".new", SAVED)
    result = subprocess.call(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]])
    print("requeued exp", result, flush=True)


def sigterm(signum, frame):
    global received_sigterm
    received_sigterm = True


signal.signal(signal.SIGUSR1, requeue)
signal.signal(signal.SIGTERM, sigterm)
print("fit from", step, flush=True)
while step < 200:
    if received_sigterm:
        sys.exit(143)
    step += 1
    total += step
    time.sleep(0.15)
print("fitted", total, flush=True)
