# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT by DistributedDataParallel over NCCL, one rank for each task of srun.

It is written as for any cluster with GPUs: nothing in it knows of checkpoints. Rank 0 prints a line for each step: the
step, its loss, and a hash of all parameters.
"""
import argparse
import hashlib
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, LENGTH = 64, 16


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, dim=32, layers=1, heads=2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, dim), nn.Embedding(LENGTH, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.head = nn.Linear(dim, VOCABULARY)

    def forward(self, ids):
        return self.head(self.blocks(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))))


def hash_parameters(model):
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
    return hashlib.sha256(parameters.cpu().numpy().tobytes()).hexdigest()[:16]


def end_is_wanted(path, device):
    """Whether rank 0 sees the file: all ranks have to end after the same step."""
    seen = torch.tensor(int(bool(path) and os.path.exists(path)), device=device)
    dist.broadcast(seen, src=0)
    return bool(seen.item())


def train(steps, until):
    rank, world, local = (int(os.environ["SLURM_" + name]) for name in ("PROCID", "NTASKS", "LOCALID"))
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DistributedDataParallel(GPT().to(device), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = torch.Generator().manual_seed(rank)  # each rank has its part of the data
    step = 0
    while step != steps and not end_is_wanted(until, device):
        step += 1
        ids = (torch.randint(0, VOCABULARY, (2, 1), generator=data) + torch.arange(LENGTH + 1)) % VOCABULARY
        ids = ids.to(device)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f} parameters {hash_parameters(model)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="end after so many steps (0: never)")
    parser.add_argument("--until", help="end when there is this file")
    args = parser.parse_args()
    train(args.steps or -1, args.until)
