// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Answers prompts by llama.cpp through node-llama-cpp, all of them at once: each prompt has a sequence of one context, and
// each batch has tokens of all sequences. Each run prints the same.
//
//   node answer.mjs MODEL [ROUNDS]     node_modules is beside this file
//
// A round adds twelve words to each answer. Each is printed in a line of its own: the round, the prompt, and the words.
import {getLlama} from "node-llama-cpp";

const prompts = ["bado kenfi", "How do you do?", "1 2 3 4 5 6 7 8 9 10 11 12", "ger"];
const [modelPath, rounds = "1"] = process.argv.slice(2);

// By itself node-llama-cpp takes into a batch what is ready by chance. What is in a batch decides which kernels compute,
// and so how sums are rounded. Here a batch waits for all sequences.
function dispatchSchedule(dispatch) {
    switch (context._queuedDecodeSequenceIds.size) {
        case 0: return; // was dispatched
        case prompts.length: return dispatch();
        default: setTimeout(dispatchSchedule, 1, dispatch);
    }
}

const llama = await getLlama({gpu: "cuda", build: "never", skipDownload: true, maxThreads: 1});
const model = await llama.loadModel({modelPath, gpuLayers: "max"});
const context = await model.createContext({sequences: prompts.length, contextSize: 256, threads: 1, batching: {dispatchSchedule}});
const sequences = prompts.map(() => context.getSequence());
console.log(`${model.gpuLayers} layers on ${llama.gpu}: ${(await llama.getGpuDeviceNames()).join(", ")}`);

// nextToken evaluates tokens and returns the likeliest one behind them.
async function nextToken(sequence, tokens) {
    const last = [tokens.at(-1), {generateNext: {token: true, options: {temperature: 0}}}];
    return (await sequence.controlledEvaluate([...tokens.slice(0, -1), last])).at(-1).next.token;
}

let tokens = prompts.map((prompt) => model.tokenize(prompt));
for (let round = 1; round <= Number(rounds); round++) {
    const answers = prompts.map(() => []);
    for (let word = 0; word < 12; word++) {
        const next = await Promise.all(sequences.map((sequence, i) => nextToken(sequence, tokens[i])));
        next.forEach((token, i) => answers[i].push(token));
        tokens = next.map((token) => [token]);
    }
    answers.forEach((answer, i) => console.log(`${round}. ${prompts[i]}: ${model.detokenize(answer).trim()}`));
}
await llama.dispose();
