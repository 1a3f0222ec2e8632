// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The cluster map: a block for each node, a cell for each GPU. Drawn on a canvas, since
// there may be 10 000 nodes; people who cannot see the map have the line below and the table of jobs.

import { arrangeNodes, groupNodes, neighbourOf, nodeAt } from "./layout.js";
import { byId, count, jobTitle } from "./text.js";

const canvas = byId("map");
const frame = byId("map-frame");
const cursor = byId("cursor");
const line = byId("map-line");
const grouping = byId("group");

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

function draw() {
  const width = Math.max(frame.clientWidth - 2 * canvas.offsetLeft, 120);
  layout = arrangeNodes(data.nodes, grouping.value, width);
  const height = Math.max(layout.height - layout.foot, 24);
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const c = canvas.getContext("2d");
  c.scale(sharp, sharp);
  const colour = colours();
  c.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
  c.fillStyle = colour.text;
  for (const block of layout.blocks) c.fillText(block.name, block.x, block.y, block.w);
  canvas.dataset.blocks = layout.blocks.map((block) => block.name).join("; "); // for tests and for people who look at the source
  data.nodes.forEach((node, i) => drawNode(c, colour, node, i));
  point(at);
}

function drawNode(c, colour, node, i) {
  const { cell, gap, label, across, w, pad } = layout;
  const { x, y } = layout.spots[i];
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
  const place = [node.kind, node.rack && `rack ${node.rack}`].filter((word) => word).join(", ");
  return `${node.name}${place ? ` (${place})` : ""}${state} — ${said.join("; ") || "no GPUs"}`;
}

// point moves the cursor to a node; -1: nowhere.
function point(i) {
  at = i < data.nodes.length ? i : -1;
  cursor.hidden = at < 0;
  if (at < 0) return;
  const { x, y } = layout.spots[at];
  cursor.style.left = `${canvas.offsetLeft + x - 4}px`;
  cursor.style.top = `${canvas.offsetTop + y - 3}px`;
  cursor.style.width = `${layout.w - layout.pad + 8}px`;
  cursor.style.height = `${layout.h - layout.foot + 6}px`;
  line.textContent = describe(at);
}

function under(event) {
  const box = canvas.getBoundingClientRect();
  return nodeAt(layout, event.clientX - box.left, event.clientY - box.top);
}

// jobUnder is the job of the GPU that was clicked, else any of the node.
function jobUnder(i, event) {
  if (event) {
    const box = canvas.getBoundingClientRect();
    const { x, y } = layout.spots[i];
    const column = Math.floor((event.clientX - box.left - x) / (layout.cell + layout.gap));
    const row = Math.floor((event.clientY - box.top - y - layout.label) / (layout.cell + layout.gap));
    const job = holders[i][row * layout.across + column];
    if (job) return job;
  }
  return holders[i].find((j) => j);
}

function keys(event) {
  if (data.nodes.length === 0) return;
  if (event.key === "Home") point(layout.order[0]);
  else if (event.key === "End") point(layout.order.at(-1));
  else if (event.key.startsWith("Arrow")) point(neighbourOf(layout, at, event.key));
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
  offerGroupings();
  draw();
  canvas.dataset.nodes = data.nodes.length; // for tests: the map is drawn
}

// offerGroupings offers what makes more than one group of the nodes, and chooses what was chosen last.
function offerGroupings() {
  const useful = [...grouping.options].filter((o) => o.value !== "" && groupNodes(data.nodes, o.value).length > 1);
  for (const option of grouping.options) option.hidden = option.disabled = option.value !== "" && !useful.includes(option);
  grouping.value = useful.find((o) => o.value === localStorage.getItem("group"))?.value || "";
  grouping.parentElement.hidden = useful.length === 0;
}

// highlight makes a job stand out; 0: none.
export function highlight(id) {
  if (id === chosen) return;
  chosen = id;
  draw();
  canvas.dataset.chosen = id; // for tests: the job stands out
}

// startMap connects the map. opener is called with the id of a job that was chosen.
export function startMap(opener) {
  open = opener;
  grouping.addEventListener("change", () => {
    localStorage.setItem("group", grouping.value);
    draw();
  });
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
