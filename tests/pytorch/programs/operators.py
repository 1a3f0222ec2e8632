# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what operators of PyTorch compute on the GPU with what they compute on the CPU, and prints a line for each."""

import sys

import torch
import torch.nn.functional as F

torch.manual_seed(0)
square = torch.randn(64, 64)
batch = torch.randn(4, 8, 16, 16)
heads = torch.randn(1, 2, 64, 32)
positions = torch.tensor([1, 3, 5, 3])


def to_gpu(value):
    return value.cuda() if isinstance(value, torch.Tensor) else value


OPERATORS = {
    # name: (tolerance, function, arguments)
    "arithmetic": (0, lambda x: x * 2 - x / 4, [square]),
    "sum": (1e-4, torch.sum, [square]),
    "cumsum": (1e-4, lambda x: x.cumsum(0), [square]),
    "sort": (0, lambda x: x.flatten().sort()[0], [square]),
    "topk": (0, lambda x: x.topk(5)[0], [square]),
    "index": (0, lambda x, i: x[i], [square, positions]),
    "scatter": (1e-5, lambda x, i: torch.zeros(8, 64, device=x.device).index_add_(0, i, x[:4]), [square, positions]),
    "embedding": (0, F.embedding, [positions, square]),
    "softmax": (1e-6, lambda x: x.softmax(-1), [square]),
    "layer norm": (1e-5, lambda x: F.layer_norm(x, (64,)), [square]),
    "batch norm": (1e-5, lambda x: F.batch_norm(x, torch.zeros(8, device=x.device), torch.ones(8, device=x.device), training=True), [batch]),
    "matmul": (1e-4, torch.matmul, [square, square]),
    "matmul in half": (0.1, lambda x: (x.half() @ x.half()).float(), [square]),
    "matmul in bfloat16": (0.5, lambda x: (x.bfloat16() @ x.bfloat16()).float(), [square]),
    "matmul in double": (1e-12, lambda x: x.double() @ x.double(), [square]),
    "linear": (1e-4, lambda x, w: F.linear(x, w, w[0]), [square, square]),
    "convolution": (1e-4, lambda x: F.conv2d(x, torch.ones(3, 8, 3, 3, device=x.device), padding=1), [batch]),
    "max pool": (0, lambda x: F.max_pool2d(x, 2), [batch]),
    "attention": (1e-5, lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), [heads]),
    "attention in half": (0.01, lambda q: F.scaled_dot_product_attention(*3 * [q.half() if q.is_cuda else q], is_causal=True).float(), [heads]),
    "cross entropy": (1e-5, lambda x: F.cross_entropy(x, torch.arange(64, device=x.device)), [square]),
    "solve": (1e-2, torch.linalg.solve, [square, square]),
    "cholesky": (1e-3, lambda x: torch.linalg.cholesky(x @ x.T + 64 * torch.eye(64, device=x.device)), [square]),
    "fft": (1e-4, lambda x: torch.view_as_real(torch.fft.fft(x)), [square]),
    "abs of complex": (1e-4, lambda x: torch.fft.fft(x).abs(), [square]),  # compiled by NVRTC
    "fft of 37": (1e-4, lambda x: torch.view_as_real(torch.fft.fft(x[:, :37])), [square]),
    "rfft in double": (1e-12, lambda x: torch.view_as_real(torch.fft.rfft(x.double())), [square]),
    "ifft2": (1e-5, lambda x: torch.view_as_real(torch.fft.ifft2(x)), [square]),
    "where": (0, lambda x: torch.where(x > 0, x, -x), [square]),
}


def check_operator(tolerance, function, arguments):
    expected = function(*arguments)
    got = function(*map(to_gpu, arguments)).cpu()
    difference = (got - expected).abs().max().item()
    return "ok" if difference <= tolerance else f"differs by {difference}"


def check_training():
    """A perceptron learns."""
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, losses = torch.randn(16, 32, device="cuda"), []
    for _ in range(5):
        loss = F.mse_loss(model(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return "ok" if losses == sorted(losses, reverse=True) else f"losses {losses}"


def check_graph():
    """A captured graph computes on what is there when it is replayed."""
    x = torch.zeros(8, device="cuda")
    x * 2 + 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    x.fill_(3)
    graph.replay()
    return "ok" if y.tolist() == [7.0] * 8 else f"{y.tolist()}"


def check_saved():
    """torch.save and torch.load keep a tensor of the GPU."""
    import io

    x, file = torch.randn(8, 8, device="cuda"), io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    y = torch.load(file)["x"]
    return "ok" if y.is_cuda and torch.equal(x, y) else "another tensor"


def check_profiler():
    """Programs that are profiled run, and learn what the CPU did: there is no CUPTI. Marks of NVTX are taken."""
    from torch.profiler import ProfilerActivity, profile

    x = torch.arange(8.0, device="cuda")
    torch.cuda.profiler.start()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled, torch.cuda.nvtx.range("step"):
        total = (x * 2).sum().item()
    torch.cuda.profiler.stop()
    return "ok" if total == 56 and any(event.key == "aten::sum" for event in profiled.key_averages()) else "no profile"


def run(check, *arguments):
    try:
        return check(*arguments)
    except Exception as error:  # the other operators are tried too
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


results = {name: run(check_operator, *row) for name, row in OPERATORS.items()}
results |= {"training": run(check_training), "captured graph": run(check_graph), "save and load": run(check_saved), "profiler": run(check_profiler)}
for name, result in results.items():
    print(f"{name}: {result}")
sys.exit(any(result != "ok" for result in results.values()))
