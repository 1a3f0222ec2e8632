# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# What submitit (core/job_environment.py, SignalHandler) does in a task of srun: rank 0 saves,
# has Slurm requeue the job and exits; SIGTERM and SIGCONT are let pass.
import os
import pickle
import signal
import subprocess
import sys
import time

STATE = "submitit.%s.pkl" % os.environ["SLURM_JOB_ID"]


class Work:
    def __init__(self):
        self.step = 0

    def __call__(self):
        while self.step < 60:
            self.step += 1
            if rank == 0:
                print("step", self.step, flush=True)
            time.sleep(0.15)


rank = int(os.environ["SLURM_PROCID"])
work = Work()
if os.path.exists(STATE):
    with open(STATE, "rb") as f:
        work.step = pickle.load(f)


def checkpoint_and_try_requeue(signum, frame):
    if rank != 0:
        return
    with open(STATE + ".new", "wb") as f:
        pickle.dump(work.step, f)
    os.rename(STATE + ".new", STATE)
    print("requeue at", work.step, flush=True)
    subprocess.check_call(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], timeout=60)
    sys.exit(-1)


def bypass(signum, frame):
    pass


signal.signal(signal.SIGUSR1, checkpoint_and_try_requeue)
signal.signal(signal.SIGTERM, bypass)
signal.signal(signal.SIGCONT, bypass)
if rank == 0:
    print("begin at", work.step, flush=True)
work()
if rank == 0:
    print("done", flush=True)
