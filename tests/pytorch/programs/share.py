# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

"""Processes pass CUDA tensors to each other by torch.multiprocessing, which shares their memory."""
import torch
import torch.multiprocessing as mp


def serve(requests, replies):
    """Change each tensor in place, and answer with a tensor of this process."""
    for number, tensor in iter(requests.get, None):
        tensor.mul_(2).add_(number)
        replies.put(tensor.sum(dim=0))
        del tensor
    replies.put(None)


def main():
    context = mp.get_context("spawn")
    requests, replies = context.Queue(), context.Queue()
    worker = context.Process(target=serve, args=(requests, replies))
    worker.start()
    mine = torch.arange(12, dtype=torch.float32, device="cuda").reshape(3, 4)
    for number in range(6):
        requests.put((number, mine))
        got = replies.get()
        print("step", number, got.tolist(), mine.sum().item(), flush=True)
        del got
    requests.put(None)
    assert replies.get() is None
    worker.join()
    print("exit", worker.exitcode, mine.tolist())


if __name__ == "__main__":
    main()
