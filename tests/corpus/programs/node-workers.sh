#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: node: worker threads share memory with Atomics, a cluster of timers, garbage to collect
# Needs: nodejs
#SBATCH --job-name=node-workers --ntasks=1 --output=log
set -eu
echo "starting"
cat >workers.cjs <<'JS'
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");
const { createHash } = require("node:crypto");

if (!isMainThread) {
	const cells = new Int32Array(workerData.shared), me = workerData.me;
	for (let turn = 0; turn < 60; turn++) {
		for (let now; (now = Atomics.load(cells, 0)) !== turn * 3 + me; ) Atomics.wait(cells, 0, now);
		const garbage = Array.from({ length: 20000 }, (_, i) => ({ i, text: `${me}/${turn}/${i}` }));
		const hash = createHash("sha1").update(JSON.stringify(garbage.slice(turn, turn + 500))).digest();
		Atomics.add(cells, 1 + (turn % 63), hash.readInt32LE(0) >> 8);
		parentPort.postMessage([turn, me, hash.toString("hex")]);
		Atomics.store(cells, 0, turn * 3 + me + 1);
		Atomics.notify(cells, 0);
		Atomics.wait(cells, 64, 0, 50); // nobody ever notifies this one: a sleep
	}
	return;
}
const shared = new SharedArrayBuffer(4 * 65);
const got = [];
const workers = [0, 1, 2].map((me) => new Worker(__filename, { workerData: { shared, me } }));
for (const w of workers) w.on("message", (m) => { got.push(m.join(" ")); if (got.length % 30 === 0) console.log("messages", got.length); });
Promise.all(workers.map((w) => new Promise((done) => w.on("exit", done)))).then((codes) => {
	console.log("exit codes", codes.join(" "));
	console.log("cells", createHash("sha256").update(Buffer.from(shared)).digest("hex"));
	require("node:fs").writeFileSync("messages", got.sort().join("\n") + "\n");
});
JS
node workers.cjs
sha256sum messages
