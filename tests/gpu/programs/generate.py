# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Answers prompts with a language model of Llama's form on one GPU, and prints the words and the bits of what decides them.

The model is made up: its weights are random numbers. `torch` has it written out in PyTorch, with a cache of keys and
values; `transformers` has LlamaForCausalLM of that package answer by generate().
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def rotate(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * torch.pow(10000.0, -torch.arange(half, device=x.device) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.norm1, self.norm2 = Norm(dim), Norm(dim)
        self.q, self.out = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k, self.v = (nn.Linear(dim, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(dim, 3 * dim, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, x, positions, cache):
        b, t, d = x.shape
        y = self.norm1(x)
        q = rotate(self.q(y).view(b, t, self.heads, self.size).transpose(1, 2), positions)
        k = rotate(self.k(y).view(b, t, self.groups, self.size).transpose(1, 2), positions)
        v = self.v(y).view(b, t, self.groups, self.size).transpose(1, 2)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = [k, v]
        many = self.heads // self.groups
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(many, 1), v.repeat_interleave(many, 1), is_causal=t > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary, dim, layers, heads, groups):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, groups) for _ in range(layers))
        self.norm, self.head = Norm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids, positions, caches):
        x = self.tokens(ids)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, positions, cache)
        return self.head(self.norm(x[:, -1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=["torch", "transformers"])
    parser.add_argument("--steps", type=int, default=30, help="words of each answer")
    parser.add_argument("--size", choices=["small", "large"], default="large", help="small is for software GPUs")
    parser.add_argument("--report", help="write the time of a step and memory to this file, as JSON")
    args = parser.parse_args()

    torch.manual_seed(0)
    small = args.size == "small"
    vocabulary, dim, layers, heads, groups = (256, 64, 2, 4, 2) if small else (32000, 2048, 16, 16, 4)
    prompts = torch.randint(0, vocabulary, (4, 12 if small else 200), generator=torch.Generator().manual_seed(5))
    times = []

    def say_step(n, logits):
        ids = logits.float().argmax(-1)
        bits = logits.float().max(-1).values.sum().item()
        print(f"word {n} {ids.tolist()} {bits.hex()}", flush=True)

    if args.program == "torch":
        model = Llama(vocabulary, dim, layers, heads, groups).bfloat16().cuda()

        def answer():
            ids, at, caches = prompts.cuda(), 0, [[] for _ in range(layers)]
            for n in range(1, args.steps + 1):
                since = time.monotonic()
                logits = model(ids, torch.arange(at, at + ids.shape[1], device="cuda"), caches)
                at += ids.shape[1]
                ids = logits.argmax(-1, keepdim=True)
                torch.cuda.synchronize()
                times.append(time.monotonic() - since)
                say_step(n, logits)
    else:
        from transformers import LlamaConfig, LlamaForCausalLM

        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=vocabulary, hidden_size=dim, intermediate_size=3 * dim, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=groups, max_position_embeddings=4096, bos_token_id=1, eos_token_id=None, pad_token_id=0,
        )).bfloat16().cuda().eval()

        def answer():
            ids = prompts.cuda()
            for n in range(1, 5):
                since = time.monotonic()
                made = model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=args.steps, min_new_tokens=args.steps, do_sample=False,
                    output_logits=True, return_dict_in_generate=True)
                torch.cuda.synchronize()
                times.append((time.monotonic() - since) / args.steps)
                for k, logits in enumerate(made.logits, 1):
                    say_step(f"{n}.{k}", logits)
                ids = made.sequences[:, -ids.shape[1]:]

    with torch.inference_mode():
        answer()
    if args.report:
        times = sorted(times[len(times) // 3:])
        with open(args.report, "w") as f:
            json.dump({"stepMs": 1e3 * times[len(times) // 2], "memoryMiB": torch.cuda.max_memory_allocated() / 2**20,
                       "reservedMiB": torch.cuda.max_memory_reserved() / 2**20}, f)


if __name__ == "__main__":
    main()
