#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: llama.cpp: a small model of made-up weights, quantised, answers with two threads: by its program and by its server to curl
# Needs: llama.cpp python3-gguf python3-numpy curl
# Fails: on a processor with AMX, and only there: without --singularity llama.cpp multiplies by AMX tiles, and with it by AVX-512, because CRIU saves no tiles; the sums are rounded otherwise, and the model says other words. All runs with --singularity say the same there, disturbed or not. On a processor without AMX all runs are equal
# Failure: ^log: line [0-9]+: want
#SBATCH --job-name=llama-server --ntasks=1 --output=log
set -eu
cat >model.py <<'PY'
import gguf
import numpy as np

rng = np.random.default_rng(6)
width, layers, heads, forward = 256, 4, 4, 512
tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581"]
kinds = [2, 3, 3] + [6] * 256 + [1]
for a in "bdfgklmnprstvz":
    for b in "aeiou":
        for c in ["", "n", "r"]:
            tokens.append(f"\u2581{a}{b}{c}")
            kinds.append(1)
while len(tokens) % 32:
    tokens.append(f"\u2581x{len(tokens)}")
    kinds.append(1)
out = gguf.GGUFWriter("model.gguf", "llama")
out.add_context_length(512)
out.add_embedding_length(width)
out.add_block_count(layers)
out.add_feed_forward_length(forward)
out.add_head_count(heads)
out.add_head_count_kv(heads)
out.add_layer_norm_rms_eps(1e-5)
out.add_rope_dimension_count(width // heads)
out.add_vocab_size(len(tokens))
out.add_tokenizer_model("llama")
out.add_token_list(tokens)
out.add_token_scores([-float(n) for n in range(len(tokens))])
out.add_token_types(kinds)
out.add_bos_token_id(1)
out.add_eos_token_id(2)

def tensor(name, rows, columns):
    out.add_tensor(name, (rng.normal(size=(rows, columns)) * np.sqrt(1 / columns)).astype("f4"))

def norm(name):
    out.add_tensor(name, (1 + rng.normal(size=width) / 8).astype("f4"))

tensor("token_embd.weight", len(tokens), width)
for n in range(layers):
    norm(f"blk.{n}.attn_norm.weight")
    for part in ("q", "k", "v", "output"):
        tensor(f"blk.{n}.attn_{part}.weight", width, width)
    norm(f"blk.{n}.ffn_norm.weight")
    tensor(f"blk.{n}.ffn_gate.weight", forward, width)
    tensor(f"blk.{n}.ffn_up.weight", forward, width)
    tensor(f"blk.{n}.ffn_down.weight", width, forward)
norm("output_norm.weight")
head = rng.normal(size=(len(tokens), width)).astype("f4")
head[:260] = 0  # words alone
out.add_tensor("output.weight", head)
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
PY
echo "making a model"
python3 model.py
llama-quantize model.gguf small.gguf q8_0 >/dev/null 2>&1
llama-server -m small.gguf --host 127.0.0.1 --port 18520 -t 2 -tb 2 -c 512 -np 1 --no-webui >/dev/null 2>server.log &
server=$!
until curl -sf http://127.0.0.1:18520/health >/dev/null; do sleep 0.2; done
echo "serving"
for n in $(seq 10); do
	curl -sS --max-time 200 http://127.0.0.1:18520/completion -d "{\"prompt\": \"ba ke do$(printf ' li%.0s' $(seq "$n"))\", \"n_predict\": 60, \"temperature\": 0, \"cache_prompt\": false}" |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["content"])'
done
kill $server
wait $server || true
rm model.py model.gguf small.gguf server.log
