#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PyTorch DistributedDataParallel over gloo, one rank on each of two nodes
# Needs: python3-torch
#SBATCH --job-name=torch-ddp --nodes=2 --ntasks-per-node=1 --output=log
set -eu
export OMP_NUM_THREADS=1 USE_LIBUV=0 # Debian's PyTorch is built without libuv
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29611
echo "starting two ranks"
cat >train.py <<'PY'
import hashlib, os, time
import torch
import torch.distributed as dist
from torch import nn

rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
torch.manual_seed(3)
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=world)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1)))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
rng = torch.Generator().manual_seed(100 + rank)
with open(f"loss.{rank}", "w") as out:
    for step in range(70):
        x = torch.randn(128, 64, generator=rng)
        opt.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        opt.step()
        both = loss.detach().clone()
        dist.all_reduce(both)
        print(step, loss.item().hex(), both.item().hex(), file=out, flush=True)
        if rank == 0 and step % 10 == 9:
            print("step", step + 1, both.item().hex(), flush=True)
        time.sleep(0.08)
dist.barrier()
h = hashlib.sha256()
for p in model.parameters():
    h.update(p.detach().numpy().tobytes())
with open(f"model.{rank}", "w") as out:
    print(h.hexdigest(), file=out)
dist.destroy_process_group()
PY
# gloo tells on standard error who found whom first, which is a race.
srun bash -c 'exec python3 train.py 2>errors.$SLURM_PROCID'
cmp model.0 model.1 && echo "both ranks have model $(cat model.0)"
