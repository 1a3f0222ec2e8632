# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT of three million parameters, sharded over the ranks (FSDP), with the worker processes of a DataLoader."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gpt import GPT
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY = 64


class Sequences(Dataset):
    def __init__(self, many):
        self.many = many

    def __len__(self):
        return self.many

    def __getitem__(self, i):
        start = torch.randint(0, VOCABULARY, (1,), generator=torch.Generator().manual_seed(i))
        return (start + torch.arange(33)) % VOCABULARY


def train(rank, world, local, steps, workers):
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = FullyShardedDataParallel(GPT(dim=256, layers=4).cuda(), device_id=local)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Sequences(4 * world * steps)
    batches = DataLoader(data, batch_size=4, num_workers=workers, sampler=DistributedSampler(data, world, rank))
    for step, ids in enumerate(batches, 1):
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


def train_in_process(rank, world, steps, workers):
    train(rank, world, rank, steps, workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2, help="worker processes of each rank's DataLoader")
    parser.add_argument("--processes", type=int, default=0, help="start so many ranks here (default: srun has started one)")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29657")
    if args.processes:
        torch.multiprocessing.spawn(train_in_process, (args.processes, args.steps, args.workers), args.processes)
    else:
        slurm = {name: int(os.environ["SLURM_" + name]) for name in ("PROCID", "NTASKS", "LOCALID")}
        train(slurm["PROCID"], slurm["NTASKS"], slurm["LOCALID"], args.steps, args.workers)


if __name__ == "__main__":
    main()
