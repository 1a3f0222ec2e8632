// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Makes elements and words. Names of jobs and reasons come from users: they are put into the
// page as text, never as markup, and nothing here can do otherwise.

const svgSpace = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

// el makes an HTML element. Attributes that are functions are listeners.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// svg makes an SVG element.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgSpace, tag), attributes, children);
}

const states = { undoing: "being taken back", undone: "not done", dropped: "given up" };

// stateText says how far an action is: what is done now, or how it ended.
export function stateText(a) {
  const state = states[a.state] ?? a.state;
  if (a.ended || !a.step) return state === "going" ? "under way" : state;
  const doing = a.doing || a.step;
  return a.state === "going" ? doing : `${state}: ${doing}`;
}

const drawn = new WeakMap(); // of what an element shows, as JSON

// refill puts new children into an element if their content has changed. A keyboard
// focus on a button of the element stays there.
export function refill(node, content, make) {
  const text = JSON.stringify(content);
  if (drawn.get(node) === text) return;
  drawn.set(node, text);
  const at = [...node.querySelectorAll("button")].indexOf(document.activeElement);
  node.replaceChildren(...make());
  if (at >= 0) node.querySelectorAll("button")[at]?.focus({ preventScroll: true });
}

export const byId = (id) => document.getElementById(id);

let ahead = 0; // of the server's clock before ours, in ms

// serverClock notes the server's time.
export function serverClock(date) {
  const then = Date.parse(date);
  if (!Number.isNaN(then)) ahead = then - Date.now();
}

// now is the server's time in seconds.
export const now = () => (Date.now() + ahead) / 1000;

export function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

// gpusText says how many GPUs a job has, beside how many its user asked for, and how many leases lend it.
export function gpusText(job) {
  const own = job.gpus - (job.leased || 0);
  let text = String(own);
  if (own < job.request) text += ` of ${job.request}`;
  if (own > job.request) text += `, asked for ${job.request}`;
  return job.leased ? `${text} + ${job.leased} leased` : text;
}

// bytes writes a size as people say it.
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

// duration writes seconds as people say them.
export function duration(s) {
  s = Math.max(0, Math.round(s));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ""}`.trim();
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export const ago = (t) => `${duration(now() - t)} ago`;

const two = (n) => String(n).padStart(2, "0");

// clock is a time of day, with the day if that is another.
export function clock(t, withSeconds = true) {
  const d = new Date(t * 1000);
  const text = `${two(d.getHours())}:${two(d.getMinutes())}${withSeconds ? `:${two(d.getSeconds())}` : ""}`;
  const sameDay = d.toDateString() === new Date(now() * 1000).toDateString();
  return sameDay ? text : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${text}`;
}

export const percent = (f) => `${Math.floor(f * 1000) / 10} %`;

// jobTitle names a job for people: "812 train".
export const jobTitle = (j) => (j.name ? `${j.label} ${j.name}` : j.label);
