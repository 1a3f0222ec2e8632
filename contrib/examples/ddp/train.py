# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# An ordinary data-parallel training: it knows nothing of checkpoints. Rank 0 prints, for
# each step, the loss exactly, the time, and the node that it believes to be on.

import os
import platform
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200

torch.set_num_threads(1)
rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(7)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
teacher = torch.randn(32, 1, generator=torch.Generator().manual_seed(3)) / 4
data = torch.Generator().manual_seed(100 + rank)
for step in range(STEPS):
    x = torch.randn(64, 32, generator=data)
    y = torch.tanh(x @ teacher)
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(step, loss.item().hex(), f"{time.time():.3f}", platform.node(), flush=True)
    time.sleep(0.05)
