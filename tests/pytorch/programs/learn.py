# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron and a GPT on one GPU with AdamW, in f32 and in bf16 by autocast, and prints each loss. Before, multiplies matrices."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

from gpt import GPT


def train(name, model, batches, autocast):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, (inputs, targets) in enumerate(batches, 1):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{name} {'bf16' if autocast else 'f32'} {step} {loss.item():.6f} {loss.item().hex()}", flush=True)


def classify(steps):
    data = torch.Generator().manual_seed(11)
    x = torch.randn(64, 3000, generator=data).cuda()
    y = (x[:, :10] + x[:, 10:20]).argmax(1)
    return [(x, y)] * steps


def count_on(steps):
    data = torch.Generator().manual_seed(12)
    ids = [((torch.randint(0, 64, (4, 1), generator=data) + torch.arange(33)) % 64).cuda() for _ in range(steps)]
    return [(i[:, :-1], i[:, 1:]) for i in ids]


def multiply():
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        data = torch.Generator().manual_seed(13)
        a, b = (torch.randn(shape, generator=data).cuda().to(dtype) for shape in ((128, 2000), (2000, 128)))
        total = (a @ b).cpu().double().abs().sum().item()
        print(f"product {name} {total:.6f} {total.hex()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("models", nargs="*", default=["mlp", "gpt"])
    args = parser.parse_args()
    torch.cuda.set_device(args.device)
    multiply()
    for name in args.models:
        for autocast in (False, True):
            torch.manual_seed(0)
            if name == "mlp":
                model, batches = nn.Sequential(nn.Linear(3000, 100), nn.GELU(), nn.Linear(100, 10)), classify(args.steps)
            else:
                model, batches = GPT(), count_on(args.steps)
            train(name, model.cuda(), batches, autocast)


if __name__ == "__main__":
    main()
