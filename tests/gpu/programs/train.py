# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on one GPU, or on two, as people write it, and prints the bits of each loss.

What depends on the machine (step time, memory) goes to --report, so that two runs that compute the same print the same.
"""
import argparse
import json
import os
import socket
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts; without it sums may differ between runs

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

RANKS = 2


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
    def __init__(self, vocabulary, length, dim, layers, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(length, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        return self.head(self.blocks(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))))


def make_mlp(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width), nn.Linear(width, 16))


def mlp_batch(generator, width):
    x = torch.randn(64, width, generator=generator)
    return x, x[:, :16].argmax(1)


def gpt_batch(generator, length):
    ids = (torch.randint(0, 256, (8, 1), generator=generator) + torch.arange(length + 1)) % 256
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=["mlp", "gpt", "autocast", "ranks", "graph", "compile"],
                        help="a perceptron; a GPT in bf16; the same by autocast; that by two ranks; the perceptron with its step in a CUDA graph, or compiled by torch.compile")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", choices=["small", "large"], default="large", help="small is for software GPUs")
    parser.add_argument("--report", help="write step time and memory to this file, as JSON")
    args = parser.parse_args()
    if args.program == "ranks":
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ["MASTER_PORT"] = str(free_port())
        torch.multiprocessing.spawn(train, (args,), nprocs=RANKS)
    else:
        train(0, args)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train(rank, args):
    ranks = args.program == "ranks"
    if ranks:
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    data = torch.Generator().manual_seed(5 + rank)
    small = args.size == "small"
    transformer = args.program in ("gpt", "autocast", "ranks")
    width, length = (32, 32) if small else (512, 256)
    model = GPT(256, length, *((64, 2, 4) if small else (512, 8, 8))) if transformer else make_mlp(width)
    model = model.cuda()
    if args.program == "gpt":
        model = model.bfloat16()
    if ranks:
        model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=args.program == "graph")
    forward = torch.compile(model) if args.program == "compile" else model

    def train_step(x, y):
        optimizer.zero_grad(set_to_none=args.program != "graph")
        with torch.autocast("cuda", torch.bfloat16, enabled=args.program in ("autocast", "ranks")):
            loss = F.cross_entropy(forward(x).float().flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    def next_batch():
        x, y = gpt_batch(data, length) if transformer else mlp_batch(data, width)
        return x.cuda(), y.cuda()

    if args.program == "graph":
        still = [t.clone() for t in next_batch()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                train_step(*still)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            captured_loss = train_step(*still)

        def step(x, y):
            still[0].copy_(x)
            still[1].copy_(y)
            captured.replay()
            return captured_loss
    else:
        step = train_step

    times = []
    for n in range(1, args.steps + 1):
        x, y = next_batch()
        torch.cuda.synchronize()
        since = time.monotonic()
        loss = step(x, y)
        if ranks:
            loss = loss.detach()
            dist.all_reduce(loss)
        torch.cuda.synchronize()
        times.append(time.monotonic() - since)
        if rank > 0:
            continue
        print(f"step {n} loss {loss.item():.5f} {loss.item().hex()}", flush=True)
    if args.report and rank == 0:
        times = sorted(times[len(times) // 3:])
        with open(args.report, "w") as f:
            json.dump({"stepMs": 1e3 * times[len(times) // 2], "memoryMiB": torch.cuda.max_memory_allocated() / 2**20,
                       "reservedMiB": torch.cuda.max_memory_reserved() / 2**20}, f)
    if ranks:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
