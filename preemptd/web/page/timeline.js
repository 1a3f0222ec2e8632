// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The timeline: a row for each job, a bar for each part of its life, a mark for each action.

import { byId, clock, count, duration, now, svg } from "./text.js";

const box = byId("timeline");
const rowHeight = 26;
const axisHeight = 22;

let last = null;
let open = () => {};

const still = new Set(["suspended", "leaving"]);
const idle = new Set(["held", "deferred"]);

// ticks are the times at which the axis has a label: some six of them, at full minutes.
function ticks(from, to, room) {
  const steps = [60, 300, 600, 1800, 3600, 7200, 14400, 21600];
  const step = steps.find((s) => ((to - from) / s) * 62 < room) || steps.at(-1);
  const all = [];
  const zone = new Date(to * 1000).getTimezoneOffset() * 60;
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) all.push(t);
  return all;
}

function bar(job, part, scale) {
  const until = part.to || scale.to;
  const x = scale.at(part.from);
  const width = Math.max(scale.at(until) - x, 1.5);
  const said = `${part.state}${part.gpus ? `, ${count(part.gpus, "GPU")}` : ""}: ${clock(part.from)} to ${part.to ? clock(part.to) : "now"}, ${duration(until - part.from)}`;
  const kind = part.gpus || part.state === "running" ? `${job.tier}${still.has(part.state) ? " still" : ""}` : idle.has(part.state) ? "held" : "waiting";
  const thick = kind === "waiting" || kind === "held" ? 6 : 16;
  const group = [svg("rect", { class: `part ${kind}`, x, width, y: (rowHeight - thick) / 2, height: thick, rx: 3 }, svg("title", {}, said))];
  if (thick > 10 && part.gpus && width > 30) {
    group.push(svg("text", { class: still.has(part.state) ? "gpus still" : "gpus", x: x + 6, y: rowHeight / 2 + 4 }, String(part.gpus)));
  }
  return group;
}

function mark(m, scale) {
  const x = scale.at(m.from);
  const said = m.state ? `${m.kind}, ${m.state}: ${m.why} (${m.who}, ${clock(m.from)}${m.to ? `, took ${duration(m.to - m.from)}` : ""})` : `${m.kind}: ${m.why} (${clock(m.from)})`;
  return svg("path", { class: `mark ${m.state || "others"}`, d: `M${x - 5} 2h10l-5 8z` }, svg("title", {}, said));
}

function clip(text, room) {
  const most = Math.max(3, Math.floor(room / 7.2));
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

function row(job, i, scale, left, width) {
  const said = `Job ${job.label}, ${job.name}, of ${job.user}, ${job.tier}`;
  const choose = () => open(job.id);
  const g = svg("g", {
    class: "job", transform: `translate(0 ${axisHeight + i * rowHeight})`, tabindex: 0, role: "button", "aria-label": said,
    click: choose, keydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(); } },
  }, svg("title", {}, said), svg("rect", { class: "row", x: 0, y: 1, width, height: rowHeight - 2, rx: 5 }));
  const label = svg("text", { class: "label", x: 6, y: rowHeight / 2 + 4 }, job.label);
  label.append(svg("tspan", { class: "owner", dx: 6 }, clip(job.name || job.user, left - 22 - job.label.length * 7.6)));
  g.append(label);
  for (const part of job.parts) if ((part.to || scale.to) >= scale.from) g.append(...bar(job, part, scale));
  for (const m of job.marks) if (m.from >= scale.from) g.append(mark(m, scale));
  return g;
}

// begin is where the time line begins: a cluster that is younger than the span that was asked for has all
// of the width, from ten minutes on.
function begin(to) {
  const asked = to - (last.to - last.from);
  const first = last.jobs.reduce((t, job) => job.parts.reduce((s, part) => Math.min(s, part.from), t), to);
  return Math.max(asked, Math.min(first - (to - first) / 50, to - 600));
}

function draw() {
  if (!last) return;
  const width = Math.max(box.clientWidth, 240);
  const left = width < 600 ? 110 : 200;
  const to = Math.max(last.to, now());
  const from = begin(to);
  const scale = { from, to, at: (t) => left + (Math.max(0, t - from) / (to - from)) * (width - left - 8) };
  const height = axisHeight + last.jobs.length * rowHeight + 4;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Timeline of jobs" });
  for (const t of ticks(from, to, width - left)) {
    const x = scale.at(t);
    if (x < left + 14 || x > width - 22) continue; // its label would be cut
    picture.append(svg("line", { class: "grid", x1: x, x2: x, y1: axisHeight - 4, y2: height }));
    picture.append(svg("text", { x, y: 12, "text-anchor": "middle" }, clock(t, false).slice(-5)));
  }
  last.jobs.forEach((job, i) => picture.append(row(job, i, scale, left, width)));
  // A keyboard focus on a row stays there.
  const focused = box.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  box.replaceChildren(picture);
  if (focused) [...picture.querySelectorAll(".job")].find((g) => g.getAttribute("aria-label") === focused)?.focus();
}

// showTimeline draws what /api/v1/timeline said.
export function showTimeline(timeline) {
  last = timeline;
  draw();
  const more = byId("timeline-more");
  if (last.jobs.length === 0) more.textContent = "No job was seen in this time.";
  else if (last.more) more.textContent = `${last.more.toLocaleString("en")} more jobs match; name one to see it.`;
  else more.textContent = "";
}

// startTimeline connects the timeline. opener is called with the id of a job that was chosen.
export function startTimeline(opener) {
  open = opener;
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
}
