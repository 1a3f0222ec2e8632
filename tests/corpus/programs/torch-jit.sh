#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PyTorch: scripted and traced functions, threads of the interpreter with fork and wait, quantised weights, exported graphs
# Needs: python3-torch
#SBATCH --job-name=torch-jit --ntasks=1 --output=log
set -eu
cat >script.py <<'PY'
import hashlib, time
from typing import Dict, List
import torch
from torch import nn

torch.manual_seed(8)
torch.set_num_threads(1)

@torch.jit.script
def collatz(n: int) -> List[int]:
    path: List[int] = []
    while n != 1:
        path.append(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return path

@torch.jit.script
def slow(x: torch.Tensor, rounds: int) -> torch.Tensor:
    for i in range(rounds):
        x = torch.tanh(x @ x.t()) * 0.5 + 0.1 * i / rounds
    return x

@torch.jit.script
def both(x: torch.Tensor, rounds: int) -> Dict[str, torch.Tensor]:
    a = torch.jit.fork(slow, x, rounds)
    b = torch.jit.fork(slow, -x, rounds)
    return {"a": torch.jit.wait(a), "b": torch.jit.wait(b)}

class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.GRUCell(8, 16)
        self.out = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        h = torch.zeros(x.size(0), 16)
        for i in range(steps):
            h = self.inner(x, h)
            x = self.out(h) if i % 2 == 0 else x + 0.1
        return x

print("starting", flush=True)
cell = torch.jit.script(Cell())
traced = torch.jit.trace(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2)).eval(), torch.randn(1, 3, 16, 16))
h = hashlib.sha256()
for turn in range(1, 61):
    h.update(repr(collatz(turn + 10000)).encode())
    for name, t in sorted(both(torch.randn(24, 24), 30).items()):
        h.update(name.encode() + t.numpy().tobytes())
    with torch.no_grad():
        h.update(cell(torch.randn(4, 8), turn).numpy().tobytes() + traced(torch.randn(2, 3, 16, 16)).numpy().tobytes())
    if turn % 10 == 0:
        cell.save("cell.pt")
        cell = torch.jit.load("cell.pt")
        traced = torch.jit.freeze(traced) if turn == 30 else traced
        print("turn", turn, h.hexdigest()[:16], flush=True)
    time.sleep(0.08)
exported = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.GELU()), (torch.randn(2, 4),))
print([str(n.target) for n in exported.graph.nodes if n.op == "call_function"])
PY
python3 -W ignore script.py
rm script.py cell.pt
