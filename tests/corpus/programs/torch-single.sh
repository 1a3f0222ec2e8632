#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PyTorch trains a small convolutional network on made-up pictures, one process
# Needs: python3-torch
#SBATCH --job-name=torch-single --ntasks=1 --output=log
set -eu
export OMP_NUM_THREADS=1
echo "starting"
cat >train.py <<'PY'
import hashlib, time
import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 7 * 7, 4))
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
data = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(640, 1, 16, 16), torch.randint(4, (640,))), batch_size=32, shuffle=True)
step = 0
with open("loss", "w") as out:
    for epoch in range(3):
        for pictures, labels in data:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            opt.step()
            schedule.step()
            step += 1
            print(step, loss.item().hex(), file=out, flush=True)
            time.sleep(0.08)
        print("epoch", epoch, loss.item().hex(), flush=True)
h = hashlib.sha256()
for p in model.parameters():
    h.update(p.detach().numpy().tobytes())
print("model", h.hexdigest(), torch.rand(1).item().hex())
torch.save(model.state_dict(), "model.pt")
PY
python3 train.py
