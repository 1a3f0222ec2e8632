#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: node: timers, promises, streams through gzip and back, a child process, crypto
# Needs: nodejs
#SBATCH --job-name=node-streams --ntasks=1 --output=log
set -eu
echo "starting"
cat >streams.mjs <<'JS'
import { createHash, createHmac, scryptSync } from "node:crypto";
import { appendFileSync, createReadStream, createWriteStream } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import { createGunzip, createGzip } from "node:zlib";

let ticks = 0;
const ticked = new Promise((done) => {
	const timer = setInterval(() => {
		appendFileSync("ticks", `${++ticks}\n`);
		if (ticks === 60) { clearInterval(timer); done(); }
	}, 100);
});
const cat = spawn("cat", { stdio: ["pipe", "pipe", "inherit"] });
const echoed = createHash("sha256");
const closed = once(cat, "close");
cat.stdout.on("data", (d) => echoed.update(d));

async function* lines() {
	let key = Buffer.from("key");
	for (let i = 0; i < 70; i++) {
		key = createHmac("sha512", key).update(String(i)).digest();
		if (i % 10 === 0) key = scryptSync(key, "salt", 32, { N: 1024 });
		cat.stdin.write(key.toString("hex"));
		yield `${i} ${key.toString("base64")}\n`.repeat(50);
		await pause(80);
	}
	cat.stdin.end();
}
const upper = new Transform({ transform(chunk, _, done) { done(null, chunk.toString().toUpperCase()); } });
await pipeline(Readable.from(lines()), upper, createGzip({ level: 1 }), createWriteStream("lines.gz"));
await closed;
const all = createHash("sha256");
await pipeline(createReadStream("lines.gz"), createGunzip(), all);
await ticked;
console.log("lines", all.digest("hex"));
console.log("echoed", echoed.digest("hex"));
JS
node streams.mjs
