# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Sums what the worker processes of a DataLoader bring to the GPU, through pinned memory."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((4,), float(i)), i * i


def main():
    total = torch.zeros((), device="cuda")
    for _ in range(2):
        for x, y in DataLoader(Squares(), batch_size=8, num_workers=2, pin_memory=True):
            total += x.cuda(non_blocking=True).sum() + y.cuda(non_blocking=True).sum()
    print("sum", total.item())


if __name__ == "__main__":
    main()
