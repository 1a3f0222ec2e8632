// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Writes a tiny model of llama's architecture in the GGUF format, with made-up words and made-up weights: the same bytes
// on each machine. Its answers are sequences of its words without a sense.
//
//   node model.mjs FILE
//
// The weights are of four types (f32, f16, q8_0, q4_0), so that the kernels for each are needed.
import fs from "node:fs";

const embedding = 256, heads = 4, headsOfKeys = 2, feedForward = 512, layers = 3;

// newRandom returns a source of numbers in [-1, 1) (mulberry32).
function newRandom(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
    };
}

// The vocabulary: three control tokens, a token for each byte and one for the space, so that each prompt can be written in
// tokens, and words.
const kinds = {normal: 1, unknown: 2, control: 3, byte: 6};
function makeVocabulary() {
    const tokens = [["<unk>", kinds.unknown], ["<s>", kinds.control], ["</s>", kinds.control]];
    for (let byte = 0; byte < 256; byte++)
        tokens.push([`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, kinds.byte]);
    tokens.push(["▁", kinds.normal]);
    const words = tokens.length;
    for (const first of "bdfgklmnprstvz")
        for (const vowel of "aeiou")
            for (const last of ["", "n", "r"])
                tokens.push([`▁${first}${vowel}${last}`, kinds.normal]);
    while (tokens.length % 32 !== 0)
        tokens.push([`▁x${tokens.length}`, kinds.normal]);
    return {tokens, words};
}

// halfOf returns the bits of the nearest number of 16 bits. Numbers here are neither tiny nor huge.
const float = new Float32Array(1), bits = new Uint32Array(float.buffer);
function halfOf(x) {
    float[0] = x;
    const sign = (bits[0] >>> 16) & 0x8000, magnitude = bits[0] & 0x7fffffff;
    if (magnitude < 0x38800000)
        return sign; // below the normal numbers: zero
    return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

// Each type: its number in GGUF, how many values are in a block, and how they are written.
const types = {
    f32: {number: 0, block: 1, bytes: 4, write: (out, at, x) => out.writeFloatLE(x[0], at)},
    f16: {number: 1, block: 1, bytes: 2, write: (out, at, x) => out.writeUInt16LE(halfOf(x[0]), at)},
    q8_0: {
        number: 8, block: 32, bytes: 34, write(out, at, x) {
            const scale = Math.max(...x.map(Math.abs)) / 127;
            out.writeUInt16LE(halfOf(scale), at);
            x.forEach((value, i) => out.writeInt8(scale ? Math.round(value / scale) : 0, at + 2 + i));
        }
    },
    q4_0: {
        number: 2, block: 32, bytes: 18, write(out, at, x) {
            const scale = Math.max(...x.map(Math.abs)) / 7;
            const four = (value) => 8 + (scale ? Math.round(value / scale) : 0);
            out.writeUInt16LE(halfOf(scale), at);
            for (let i = 0; i < 16; i++)
                out.writeUInt8(four(x[i]) | (four(x[i + 16]) << 4), at + 2 + i);
        }
    }
};

// makeTensor encodes a matrix: valueAt has the weight of a row and a column.
function makeTensor(name, type, columns, rows, valueAt) {
    const {block, bytes, write} = types[type];
    const data = Buffer.alloc(columns * rows / block * bytes);
    const values = new Array(block);
    for (let row = 0, at = 0; row < rows; row++)
        for (let column = 0; column < columns; column += block, at += bytes) {
            for (let i = 0; i < block; i++)
                values[i] = valueAt(row, column + i);
            write(data, at, values);
        }
    return {name, type: types[type].number, shape: rows > 1 ? [columns, rows] : [columns], data};
}

function makeTensors(vocabulary) {
    const random = newRandom(20260101);
    const spread = (columns) => () => random() * Math.sqrt(3 / columns);
    const matrix = (name, type, columns, rows) => makeTensor(name, type, columns, rows, spread(columns));
    const norm = (name) => makeTensor(name, "f32", embedding, 1, () => 1 + random() / 8);
    const keys = embedding / heads * headsOfKeys;
    const size = vocabulary.tokens.length;
    const tensors = [makeTensor("token_embd.weight", "f16", embedding, size, random)];
    for (let layer = 0; layer < layers; layer++) {
        const name = (part) => `blk.${layer}.${part}.weight`;
        tensors.push(
            norm(name("attn_norm")), matrix(name("attn_q"), "f16", embedding, embedding),
            matrix(name("attn_k"), "q8_0", embedding, keys), matrix(name("attn_v"), "q8_0", embedding, keys),
            matrix(name("attn_output"), "f32", embedding, embedding),
            norm(name("ffn_norm")), matrix(name("ffn_gate"), "q8_0", embedding, feedForward),
            matrix(name("ffn_up"), "q4_0", embedding, feedForward), matrix(name("ffn_down"), "q4_0", feedForward, embedding));
    }
    // What is no word has the weights 0: an answer has words alone, and no end.
    const output = spread(embedding / 16);
    tensors.push(norm("output_norm.weight"),
        makeTensor("output.weight", "f16", embedding, size, (row) => row < vocabulary.words ? 0 : output()));
    return tensors;
}

const integer = (number) => { const b = Buffer.alloc(4); b.writeUInt32LE(number); return b; };
const long = (number) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(number)); return b; };
const real = (number) => { const b = Buffer.alloc(4); b.writeFloatLE(number); return b; };
const text = (string) => { const b = Buffer.from(string); return Buffer.concat([long(b.length), b]); };
const list = (type, items) => Buffer.concat([integer(type), long(items.length), ...items]);

// A value in the head of the file: its type's number in GGUF, and its bytes.
const number = (x) => [4, integer(x)], fraction = (x) => [6, real(x)], flag = (x) => [7, Buffer.from([x ? 1 : 0])];
const string = (x) => [8, text(x)], array = (type, items) => [9, list(type, items)];

function makeFile() {
    const vocabulary = makeVocabulary();
    const head = {
        "general.architecture": string("llama"),
        "general.name": string("made up"),
        "llama.block_count": number(layers),
        "llama.context_length": number(512),
        "llama.embedding_length": number(embedding),
        "llama.feed_forward_length": number(feedForward),
        "llama.attention.head_count": number(heads),
        "llama.attention.head_count_kv": number(headsOfKeys),
        "llama.attention.layer_norm_rms_epsilon": fraction(1e-5),
        "llama.rope.dimension_count": number(embedding / heads),
        "llama.vocab_size": number(vocabulary.tokens.length),
        "tokenizer.ggml.model": string("llama"),
        "tokenizer.ggml.tokens": array(8, vocabulary.tokens.map(([token]) => text(token))),
        "tokenizer.ggml.scores": array(6, vocabulary.tokens.map((_, i) => real(-i))),
        "tokenizer.ggml.token_type": array(5, vocabulary.tokens.map(([, kind]) => integer(kind))),
        "tokenizer.ggml.bos_token_id": number(1),
        "tokenizer.ggml.eos_token_id": number(2),
        "tokenizer.ggml.add_bos_token": flag(true)
    };
    const tensors = makeTensors(vocabulary);
    const pad = (length) => Buffer.alloc((32 - length % 32) % 32);
    const parts = [Buffer.from("GGUF"), integer(3), long(tensors.length), long(Object.keys(head).length)];
    for (const [key, [type, value]] of Object.entries(head))
        parts.push(text(key), integer(type), value);
    let offset = 0;
    for (const {name, type, shape, data} of tensors) {
        parts.push(text(name), integer(shape.length), ...shape.map(long), integer(type), long(offset));
        offset += data.length + pad(data.length).length;
    }
    parts.push(pad(parts.reduce((sum, part) => sum + part.length, 0)));
    for (const {data} of tensors)
        parts.push(data, pad(data.length));
    return Buffer.concat(parts);
}

fs.writeFileSync(process.argv[2], makeFile());
