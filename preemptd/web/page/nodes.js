// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The table of nodes: how each node's proxyd is, those with a problem first.

import { byId, bytes, clock, count, el, percent, refill } from "./text.js";

const most = 100; // nodes in the table
const low = 0.05; // of a file system: less is shown as short

const names = new Intl.Collator("en", { numeric: true });

// short says whether a file system is nearly full.
const short = (space) => Boolean(space) && space.free < low * space.size;

// kinds are what a node can be, the worst first: the class of its sign, and what the table says of its proxyd.
const kinds = [
  { is: (n) => n.proxyd === "silent" && n.heard, sign: "bad", text: (n) => `does not answer since ${clock(n.since)}` },
  { is: (n) => n.problem, sign: "bad", text: () => "answers" },
  { is: (n) => n.proxyd === "answers" && (short(n.store) || short(n.stage)), sign: "warn", text: () => "answers" },
  { is: (n) => n.proxyd === "silent", sign: "warn", text: (n) => `has not answered yet, asked since ${clock(n.since)}` },
  { is: (n) => n.proxyd === "unasked", sign: "quiet", text: () => "not asked yet" },
  { is: () => true, sign: "good", text: () => "answers" },
];

const kindOf = (node) => kinds.findIndex((k) => k.is(node));

// problems says of each node with a problem what that is.
export function problems(nodes) {
  const all = new Map();
  for (const n of nodes) {
    if (n.proxyd === "silent") all.set(n.name, `proxyd ${kinds[kindOf(n)].text(n)}`);
    else if (n.problem) all.set(n.name, n.problem);
  }
  return all;
}

const spaceCell = (space) => el("td", { class: short(space) ? "number short" : "number" },
  space ? `${bytes(space.free)}, ${percent(space.free / space.size)}` : "–");

function nodeRow(node, place) {
  const kind = kinds[kindOf(node)];
  const folder = node.problem || (node.proxyd !== "answers" ? "–" : node.says ? "right" : "does not say");
  return el("tr", { "data-node": node.name },
    el("td", {}, el("i", { class: `sign ${kind.sign}` }), node.name),
    el("td", { class: kind.sign === "bad" && !node.problem ? "short" : "" }, kind.text(node)),
    el("td", {}, node.version || "–"),
    el("td", { class: node.problem ? "short" : "" }, folder),
    spaceCell(node.store), spaceCell(node.stage),
    el("td", {}, node.devices || "–"),
    el("td", { class: "number" }, node.says ? String(node.capsules) : "–"),
    el("td", {}, place.partitions.join(", ")),
    el("td", {}, place.rack || "–"));
}

// showNodes fills the table. A filter finds names, partitions, racks, versions, kinds of devices and problems.
export function showNodes(nodes, cluster, counts) {
  const places = new Map(cluster.nodes.map((n) => [n.name, { partitions: n.partitions || [], rack: n.rack || "" }]));
  const of = (n) => places.get(n.name) || { partitions: [], rack: "" };
  const words = byId("find-node").value.toLowerCase().split(/\s+/).filter((w) => w);
  const found = nodes.filter((n) => {
    const text = [n.name, kinds[kindOf(n)].text(n), n.version || "", n.problem || "", n.devices || "", ...of(n).partitions, of(n).rack].join(" ").toLowerCase();
    return words.every((w) => text.includes(w));
  });
  found.sort((a, b) => kindOf(a) - kindOf(b) || names.compare(a.name, b.name));
  const shown = found.slice(0, most);
  refill(byId("nodes"), [shown, shown.map(of)], () => shown.map((n) => nodeRow(n, of(n))));
  const more = found.length - most;
  const sum = [`${counts.answer.toLocaleString("en")} of ${count(counts.nodes, "proxyd")} answer`];
  if (counts.silent) sum.push(`${counts.silent.toLocaleString("en")} silent`);
  if (counts.unsound) sum.push(`${counts.unsound.toLocaleString("en")} without the right shared folder`);
  byId("nodes-line").textContent = nodes.length === 0 ? "Nothing is known of the nodes' proxyds." : sum.join(", ");
  byId("nodes-more").textContent = more > 0 ? `${more.toLocaleString("en")} more; name what you look for.` : "";
}
