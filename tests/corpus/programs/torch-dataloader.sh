#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PyTorch: a training that is fed by a DataLoader with worker processes
# Needs: python3-torch
#SBATCH --job-name=torch-dataloader --ntasks=1 --output=log
set -eu
export OMP_NUM_THREADS=1
cat >feed.py <<'PY'
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, n):
        time.sleep(0.01)
        g = torch.Generator().manual_seed(n)
        x = torch.randn(64, generator=g)
        return x, x.sum().reshape(1)

def main():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = DataLoader(Numbers(), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True, generator=torch.Generator().manual_seed(2))
    print("begins", flush=True)
    for epoch in range(4):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item().hex(), flush=True)
    print(sum(p.double().sum().item() for p in model.parameters()).hex())

if __name__ == "__main__":
    main()
PY
python3 feed.py
