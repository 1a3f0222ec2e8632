#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: torchrun, a launcher on each of two nodes with two ranks each: a rendezvous by c10d, DistributedDataParallel over gloo
# Needs: python3-torch
#SBATCH --job-name=torchrun-nodes --nodes=2 --ntasks-per-node=1 --output=log
set -eu
export OMP_NUM_THREADS=1 USE_LIBUV=0
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Debian's PyTorch is built without libuv, and torchrun and its workers ask for libuv whatever USE_LIBUV says.
cat >without_libuv.py <<'PY'
import sys
import torch.distributed

class TCPStore(torch.distributed.TCPStore):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **{"use_libuv": False, **kwargs})

torch.distributed.TCPStore = sys.modules["torch.distributed.rendezvous"].TCPStore = TCPStore
if __name__ == "__main__":
    from torch.distributed.run import main
    main()
PY
echo "starting two launchers"
cat >train.py <<'PY'
import hashlib, os, time
import without_libuv
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
torch.manual_seed(11)
x = torch.randn(960, 24)
data = TensorDataset(x, (x * x).sum(1, keepdim=True))
sampler = DistributedSampler(data, seed=5)
loader = DataLoader(data, batch_size=24, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 96), nn.ReLU(), nn.Linear(96, 1)))
opt = torch.optim.Adam(model.parameters(), lr=0.003)
with open(f"loss.{rank}", "w") as out:
    for epoch in range(8):
        sampler.set_epoch(epoch)
        for batch, target in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(batch), target)
            loss.backward()
            opt.step()
            print(epoch, local, loss.item().hex(), file=out, flush=True)
            time.sleep(0.1)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print("epoch", epoch, (mean / dist.get_world_size()).item().hex(), flush=True)
            torch.save({"epoch": epoch, "model": model.module.state_dict()}, "snapshot.pt")
h = hashlib.sha256()
for p in model.parameters():
    h.update(p.detach().numpy().tobytes())
with open(f"model.{rank}", "w") as out:
    print(h.hexdigest(), file=out)
dist.barrier()
dist.destroy_process_group()
PY
# What the launchers, gloo and TCPStore tell on standard error has times, PIDs and who came first; it counts where they fail.
export head
code=0
srun bash -c 'exec python3 without_libuv.py --nnodes=2 --nproc-per-node=2 --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d \
	--rdzv-endpoint=$head:29613 train.py 2>errors.$SLURM_NODEID' || code=$?
if ((code)); then cat errors.*; fi
rm -r errors.* __pycache__
for rank in 1 2 3; do cmp model.0 model.$rank; done
echo "four ranks, exit $code, model $(cat model.0)"
