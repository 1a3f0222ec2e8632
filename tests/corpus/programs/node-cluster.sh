#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: node: a cluster of server processes behind one port, keep-alive clients, child processes with IPC, datagrams
# Needs: nodejs
#SBATCH --job-name=node-cluster --ntasks=1 --output=log
set -eu
cat >server.mjs <<'JS'
import cluster from "node:cluster";
import { createHash } from "node:crypto";
import { createSocket } from "node:dgram";
import http from "node:http";
import { setTimeout as pause } from "node:timers/promises";

const digest = (s) => createHash("sha256").update(s).digest("hex");
if (cluster.isWorker) {
	let served = 0;
	http.createServer((q, a) => {
		const parts = [];
		q.on("data", (d) => parts.push(d));
		q.on("end", async () => {
			await pause(20);
			process.send({ served: ++served });
			a.end(digest(Buffer.concat(parts)));
		});
	}).listen(11451, "127.0.0.1");
	process.on("message", (m) => { if (m === "end") process.disconnect(); });
} else {
	console.log("begins");
	let served = 0;
	const workers = [cluster.fork(), cluster.fork()];
	for (const w of workers) w.on("message", () => served++);
	await Promise.all(workers.map((w) => new Promise((r) => w.once("listening", r))));
	const agent = new http.Agent({ keepAlive: true, maxSockets: 3 });
	const ask = (body) => new Promise((yes, no) => {
		const q = http.request({ port: 11451, host: "127.0.0.1", method: "POST", agent }, (a) => {
			let text = "";
			a.setEncoding("utf8").on("data", (d) => { text += d; }).on("end", () => yes(text));
		});
		q.on("error", no);
		q.end(body);
	});
	const heard = createSocket("udp4"), said = createSocket("udp4");
	let datagrams = 0;
	heard.on("message", () => datagrams++);
	await new Promise((r) => heard.bind(0, "127.0.0.1", r));
	let h = "";
	for (let turn = 0; turn < 60; turn++) {
		const answers = await Promise.all([0, 1, 2].map((n) => ask(`${h} ${turn} ${n} `.repeat(n * 200 + 1))));
		h = digest(answers.join(" "));
		said.send(h, heard.address().port, "127.0.0.1");
		if (turn % 15 === 14) console.log("turn", turn + 1, h);
		await pause(60);
	}
	agent.destroy();
	heard.close();
	said.close();
	for (const w of workers) w.send("end");
	const codes = await Promise.all(workers.map((w) => new Promise((r) => w.once("exit", r))));
	console.log("served", served, codes, datagrams > 50);
}
JS
node server.mjs
