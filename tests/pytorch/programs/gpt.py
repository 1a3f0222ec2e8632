# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT by DistributedDataParallel over NCCL, in bf16, as people write it."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


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
    def __init__(self, vocabulary=64, length=32, dim=64, layers=2, heads=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(length, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        return self.head(self.blocks(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))))


def train(rank, world, local, steps):
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DistributedDataParallel(GPT().cuda(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = torch.Generator().manual_seed(5 + rank)
    for step in range(1, steps + 1):
        ids = (torch.randint(0, 64, (4, 1), generator=data) + torch.arange(33)) % 64
        ids = ids.cuda()
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f} {loss.item().hex()}", flush=True)
    dist.destroy_process_group()


def train_in_process(rank, world, steps):
    train(rank, world, rank, steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--processes", type=int, default=0, help="start so many ranks here (default: srun has started one)")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29655")
    if args.processes:
        torch.multiprocessing.spawn(train_in_process, (args.processes, args.steps), args.processes)
    else:
        slurm = {name: int(os.environ["SLURM_" + name]) for name in ("PROCID", "NTASKS", "LOCALID")}
        train(slurm["PROCID"], slurm["NTASKS"], slurm["LOCALID"], args.steps)


if __name__ == "__main__":
    main()
