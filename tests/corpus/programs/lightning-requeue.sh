#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a PyTorch training that requeues itself as Lightning's do: on SIGUSR1 it saves, asks Slurm for a requeue and trains on; SIGTERM ends it after the batch
# Needs: python3-torch
#SBATCH --job-name=lightning-requeue --ntasks-per-node=1 --signal=SIGUSR1@90 --output=log
set -eu
cat >fit.py <<'PY'
import glob, hashlib, os, signal, subprocess, sys, time
import torch
from torch import nn

class Trainer:
    def __init__(self):
        torch.manual_seed(4)
        torch.set_num_threads(1)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.data = torch.Generator().manual_seed(9)
        self.step, self.in_batch, self.wanted, self.received_sigterm = 0, False, False, False

    def save(self):
        n = max([int(name.split("_")[-1][:-5]) for name in glob.glob("hpc_ckpt_*.ckpt")], default=0) + 1
        state = {"step": self.step, "model": self.model.state_dict(), "opt": self.opt.state_dict(), "data": self.data.get_state()}
        torch.save(state, f"hpc_ckpt_{n}.tmp")
        os.rename(f"hpc_ckpt_{n}.tmp", f"hpc_ckpt_{n}.ckpt")

    def load(self):
        saved = sorted(glob.glob("hpc_ckpt_*.ckpt"), key=lambda name: int(name.split("_")[-1][:-5]))
        if saved:
            state = torch.load(saved[-1])
            self.step = state["step"]
            self.model.load_state_dict(state["model"])
            self.opt.load_state_dict(state["opt"])
            self.data.set_state(state["data"])
        else:
            print("fit begins", flush=True)

    def requeue(self, signum, frame):
        if self.in_batch: # the state of a batch is saved when the batch is over
            self.wanted = True
            return
        self.save()
        array = os.environ.get("SLURM_ARRAY_JOB_ID")
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]
        subprocess.call(["scontrol", "requeue", job])

    def sigterm(self, signum, frame):
        self.received_sigterm = True

    def fit(self):
        while self.step < 90:
            self.in_batch = True
            x = torch.randn(64, 32, generator=self.data)
            self.opt.zero_grad()
            loss = ((self.model(x) - x.prod(1, keepdim=True)) ** 2).mean()
            loss.backward()
            self.opt.step()
            self.step += 1
            self.in_batch = False
            if self.wanted:
                self.wanted = False
                self.requeue(None, None)
            if self.received_sigterm:
                sys.exit(143)
            time.sleep(0.08)

trainer = Trainer()
signal.signal(signal.SIGUSR1, trainer.requeue)
signal.signal(signal.SIGTERM, trainer.sigterm)
trainer.load()
trainer.fit()
h = hashlib.sha256()
for p in trainer.model.parameters():
    h.update(p.detach().numpy().tobytes())
print("fitted in", trainer.step, "steps:", h.hexdigest())
PY
srun python3 fit.py
rm -f hpc_ckpt_*
