// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The cluster map: a block for each node, a cell for each GPU. Drawn on a canvas, since
// there may be 10 000 nodes; people who cannot see the map have the line below and the table of jobs.

import { byId, count, jobTitle } from "./text.js";

const canvas = byId("map");
const frame = byId("map-frame");
const cursor = byId("cursor");
const line = byId("map-line");
const tallest = 520; // px, until cells are as small as they get
const labelFrom = 15; // px of a cell from which nodes have their names

let data = { nodes: [], jobs: [] };
let holders = []; // by node: the job of each GPU
let problems = new Map(); // of nodes' proxyds, by the node's name
let layout = null;
let at = -1; // the node under the cursor
let chosen = 0; // the job that stands out; 0: none
let open = () => {};

// colours resolves what the style sheet has.
function colours() {
  const probe = document.createElement("i");
  frame.append(probe);
  const all = {};
  for (const name of ["premium", "standard", "basic", "free", "draining", "down", "broken", "panel", "quiet", "text"]) {
    probe.style.color = `var(--${name})`;
    all[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return all;
}

// fit finds the largest cells with which all nodes have room.
function fit(width) {
  const most = data.nodes.reduce((m, n) => Math.max(m, n.gpus), 1);
  const across = Math.min(most, 2 ** Math.ceil(Math.log2(Math.sqrt(2 * most))));
  const down = Math.ceil(most / across);
  for (let cell = 28; ; cell--) {
    const gap = cell >= 9 ? 2 : cell >= 4 ? 1 : 0;
    const pad = cell >= 9 ? 10 : cell >= 4 ? 4 : 2;
    const label = cell >= labelFrom ? 17 : 0;
    const w = across * cell + (across - 1) * gap + pad;
    const h = down * cell + (down - 1) * gap + pad + label;
    const columns = Math.max(1, Math.floor((width + pad) / w));
    const rows = Math.ceil(data.nodes.length / columns);
    if (rows * h > tallest && cell > 2) continue;
    const spread = rows > 1 ? Math.max(w, Math.floor((width + pad) / columns)) : w; // to the right edge
    return { cell, gap, pad: pad + spread - w, foot: pad, label, w: spread, h, columns, rows, across };
  }
}

function place(i) {
  return { x: (i % layout.columns) * layout.w, y: Math.floor(i / layout.columns) * layout.h };
}

function draw() {
  const width = Math.max(frame.clientWidth - 2 * canvas.offsetLeft, 120);
  layout = fit(width);
  const height = Math.max(layout.rows * layout.h - layout.foot, 24);
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const c = canvas.getContext("2d");
  c.scale(sharp, sharp);
  const colour = colours();
  c.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
  data.nodes.forEach((node, i) => drawNode(c, colour, node, i));
  point(at);
}

function drawNode(c, colour, node, i) {
  const { cell, gap, label, across, w, pad } = layout;
  const { x, y } = place(i);
  if (label) {
    c.globalAlpha = 1;
    c.fillStyle = node.state === "up" && !problems.has(node.name) ? colour.quiet : colour.broken;
    c.fillText(node.name, x, y + 12, w - pad);
  }
  const round = cell >= 9 ? 3 : 0;
  for (let g = 0; g < Math.max(node.gpus, 1); g++) {
    const job = holders[i][g];
    const left = x + (g % across) * (cell + gap);
    const top = y + label + Math.floor(g / across) * (cell + gap);
    c.globalAlpha = chosen && (!job || job.id !== chosen) ? 0.25 : 1;
    c.fillStyle = job ? colour[job.tier] || colour.quiet : node.state === "up" ? colour.free : colour[node.state];
    if (!round) {
      c.fillRect(left, top, cell, cell);
      continue;
    }
    c.beginPath();
    c.roundRect(left, top, cell, cell, round);
    c.fill();
    if (job && (job.action || job.state !== "running")) { // an action is under way
      c.fillStyle = colour.panel;
      c.beginPath();
      c.arc(left + cell / 2, top + cell / 2, cell / 5, 0, 2 * Math.PI);
      c.fill();
    }
    if (node.bad?.includes(g)) {
      c.strokeStyle = colour.broken;
      c.lineWidth = 2;
      c.strokeRect(left + 1, top + 1, cell - 2, cell - 2);
    }
  }
  c.globalAlpha = 1;
}

// describe says what is on a node, for eyes and for screen readers.
function describe(i) {
  const node = data.nodes[i];
  const jobs = new Map();
  for (const job of holders[i]) if (job) jobs.set(job, (jobs.get(job) || 0) + 1);
  const free = node.gpus - [...jobs.values()].reduce((a, b) => a + b, 0);
  const said = [...jobs].map(([j, n]) => `${jobTitle(j)} (${j.user}, ${j.tier}, ${count(n, "GPU")}${j.action ? `, ${j.action} under way` : ""})`);
  if (free > 0) said.push(`${count(free, "GPU")} free`);
  if (node.bad?.length) said.push(`broken: GPU ${node.bad.join(", ")}`);
  if (problems.has(node.name)) said.push(problems.get(node.name));
  const state = node.state === "up" ? "" : `, ${node.state}${node.reason ? `: ${node.reason}` : ""}`;
  return `${node.name}${node.kind ? ` (${node.kind})` : ""}${state} — ${said.join("; ") || "no GPUs"}`;
}

// point moves the cursor to a node; -1: nowhere.
function point(i) {
  at = i < data.nodes.length ? i : -1;
  cursor.hidden = at < 0;
  if (at < 0) return;
  const { x, y } = place(at);
  cursor.style.left = `${canvas.offsetLeft + x - 4}px`;
  cursor.style.top = `${canvas.offsetTop + y - 3}px`;
  cursor.style.width = `${layout.w - layout.pad + 8}px`;
  cursor.style.height = `${layout.h - layout.foot + 6}px`;
  line.textContent = describe(at);
}

function under(event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / layout.w);
  const i = Math.floor((event.clientY - box.top) / layout.h) * layout.columns + column;
  return column < layout.columns && i >= 0 && i < data.nodes.length ? i : -1;
}

// jobUnder is the job of the GPU that was clicked, else any of the node.
function jobUnder(i, event) {
  if (event) {
    const box = canvas.getBoundingClientRect();
    const { x, y } = place(i);
    const column = Math.floor((event.clientX - box.left - x) / (layout.cell + layout.gap));
    const row = Math.floor((event.clientY - box.top - y - layout.label) / (layout.cell + layout.gap));
    const job = holders[i][row * layout.across + column];
    if (job) return job;
  }
  return holders[i].find((j) => j);
}

function keys(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns }[event.key];
  const last = data.nodes.length - 1;
  if (last < 0) return;
  if (event.key === "Home") point(0);
  else if (event.key === "End") point(last);
  else if (step !== undefined) point(at < 0 ? 0 : Math.min(last, Math.max(0, at + step)));
  else if (event.key === "Enter" && at >= 0 && jobUnder(at)) open(jobUnder(at).id);
  else return;
  event.preventDefault();
}

// showMap draws what /api/v1/cluster said, and marks nodes whose proxyd has a problem.
export function showMap(cluster, found) {
  data = cluster;
  problems = found;
  holders = data.nodes.map((n) => new Array(n.gpus).fill(null));
  for (const job of data.jobs) {
    for (const share of job.shares || []) for (const g of share.gpus) if (holders[share.node]) holders[share.node][g] = job;
  }
  canvas.dataset.nodes = data.nodes.length; // for tests: the map is drawn
  draw();
}

// highlight makes a job stand out; 0: none.
export function highlight(id) {
  if (id === chosen) return;
  chosen = id;
  draw();
}

// startMap connects the map. opener is called with the id of a job that was chosen.
export function startMap(opener) {
  open = opener;
  canvas.addEventListener("pointermove", (e) => point(under(e)));
  canvas.addEventListener("pointerleave", () => document.activeElement === canvas || point(-1));
  canvas.addEventListener("keydown", keys);
  canvas.addEventListener("click", (e) => {
    const i = under(e);
    const job = i < 0 ? null : jobUnder(i, e);
    if (job) open(job.id);
  });
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw();
  }).observe(frame);
  return draw;
}
