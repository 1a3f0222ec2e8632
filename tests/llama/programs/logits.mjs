// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Prints what a model says of the next token behind each token of a text: one line of logits for each token of the text.
// What is no word of the model has the logit 0.
//
//   node logits.mjs MODEL cpu|cuda     node_modules is beside this file
import {getLlama} from "node-llama-cpp";

const [modelPath, gpu] = process.argv.slice(2);
const llama = await getLlama({gpu: gpu === "cpu" ? false : gpu, build: "never", skipDownload: true, maxThreads: 1});
const model = await llama.loadModel({modelPath, gpuLayers: "max"});
const context = await model.createContext({contextSize: 128, threads: 1});
const tokens = model.tokenize("The quick brown fox: bado kenfi ger zun.");
const results = await context.getSequence().controlledEvaluate(
    tokens.map((token) => [token, {generateNext: {logits: true, options: {temperature: 0}}}]));
for (const {next} of results) {
    const words = [...next.logits].filter(([, logit]) => logit !== 0).sort(([a], [b]) => a - b);
    console.log(words.map(([, logit]) => logit.toFixed(5)).join(" "));
}
await llama.dispose();
