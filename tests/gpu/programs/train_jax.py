# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron by JAX on one GPU, as people write it, and prints the bits of each loss."""
import argparse
import json
import os
import time

# Read when XLA starts. Without the first, it takes three quarters of the GPU at once; without the second, sums may differ.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"

import jax
import jax.numpy as jnp


def forward(params, x):
    for w, b in params[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss_of(params, x, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), y[:, None], 1))


@jax.jit
def train_step(params, moments, x, y):
    loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
    moments = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, moments, slopes)
    return jax.tree_util.tree_map(lambda p, m: p - 0.05 * m, params, moments), moments, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", choices=["small", "large"], default="large", help="small is for software GPUs")
    parser.add_argument("--report", help="write step time and memory to this file, as JSON")
    args = parser.parse_args()

    device = jax.devices("gpu")[0]  # fails without a GPU, where JAX would train on processors and only warn
    width = 32 if args.size == "small" else 1024
    key = jax.random.PRNGKey(0)
    params = []
    for rows, columns in [(width, 4 * width), (4 * width, width), (width, 16)]:
        key, own = jax.random.split(key)
        params.append((jax.random.normal(own, (rows, columns)) / rows ** 0.5, jnp.zeros(columns)))
    moments = jax.tree_util.tree_map(jnp.zeros_like, params)
    times = []
    for n in range(1, args.steps + 1):
        key, own = jax.random.split(key)
        x = jax.random.normal(own, (64, width))
        y = x[:, :16].argmax(1)
        jax.block_until_ready((x, y))
        since = time.monotonic()
        params, moments, loss = train_step(params, moments, x, y)
        loss.block_until_ready()
        times.append(time.monotonic() - since)
        print(f"step {n} loss {float(loss):.5f} {float(loss).hex()}", flush=True)
    if args.report:
        times = sorted(times[len(times) // 3:])
        memory = device.memory_stats() or {}
        with open(args.report, "w") as f:
            json.dump({"stepMs": 1e3 * times[len(times) // 2], "memoryMiB": memory.get("peak_bytes_in_use", 0) / 2**20,
                       "reservedMiB": memory.get("pool_bytes", 0) / 2**20}, f)


if __name__ == "__main__":
    main()
