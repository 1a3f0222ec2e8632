// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Where the nodes of the map are: in rows, or in a block for each partition or rack.

const tallest = 520; // px, until cells are as small as they get
const labelFrom = 15; // px of a cell from which nodes have their names
const title = 20; // px above a block
const blockGap = 26; // px between blocks

const names = new Intl.Collator("en", { numeric: true });

// groupings are what nodes can be grouped by: the name of a node's group, "" if it has none.
const groupings = {
  partition: (node) => (node.partitions || []).join(", "),
  rack: (node) => node.rack || "",
};

// groupNodes returns the groups in order of their names, each with the places of its nodes. Nodes without a group come
// last.
export function groupNodes(nodes, by) {
  if (!groupings[by]) return [{ name: "", nodes: nodes.map((_, i) => i) }];
  const groups = new Map();
  nodes.forEach((node, i) => {
    const name = groupings[by](node);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(i);
  });
  const all = [...groups].map(([name, places]) => ({ name: name || `no ${by}`, none: name === "", nodes: places }));
  return all.sort((a, b) => a.none - b.none || names.compare(a.name, b.name));
}

// arrangeNodes finds the largest cells with which all nodes have room.
export function arrangeNodes(nodes, by, width) {
  const groups = groupNodes(nodes, by);
  const most = nodes.reduce((m, n) => Math.max(m, n.gpus), 1);
  const across = Math.min(most, 2 ** Math.ceil(Math.log2(Math.sqrt(2 * most))));
  const down = Math.ceil(most / across);
  for (let cell = 28; ; cell--) {
    const gap = cell >= 9 ? 2 : cell >= 4 ? 1 : 0;
    const pad = cell >= 9 ? 10 : cell >= 4 ? 4 : 2;
    const label = cell >= labelFrom ? 17 : 0;
    const size = { cell, gap, pad, foot: pad, label, across, w: across * cell + (across - 1) * gap + pad, h: down * cell + (down - 1) * gap + pad + label };
    const made = groupings[by] ? placeBlocks(groups, size, width) : placeRows(nodes.length, size, width);
    if (made.height <= tallest || cell <= 2) return made;
  }
}

// placeRows has rows that end at the right edge.
function placeRows(count, size, width) {
  const columns = Math.max(1, Math.floor((width + size.pad) / size.w));
  const rows = Math.ceil(count / columns);
  const w = rows > 1 ? Math.max(size.w, Math.floor((width + size.pad) / columns)) : size.w;
  const spots = Array.from({ length: count }, (_, i) => ({ x: (i % columns) * w, y: Math.floor(i / columns) * size.h }));
  return { ...size, pad: size.pad + w - size.w, w, spots, order: spots.map((_, i) => i), blocks: [], height: rows * size.h };
}

// placeBlocks has a block for each group, with the group's name above; blocks stand side by side while there is room.
function placeBlocks(groups, size, width) {
  const spots = [];
  const blocks = [];
  let x = 0, y = 0, shelf = 0; // where the next block may be, and how tall its neighbours are
  for (const group of groups) {
    const named = `${group.name} (${group.nodes.length})`;
    const wanted = Math.max(Math.round(Math.sqrt(2 * group.nodes.length * size.h / size.w)), Math.ceil(7 * named.length / size.w));
    const fitting = Math.max(1, Math.floor((width + size.pad) / size.w));
    const columns = Math.min(group.nodes.length, wanted, fitting);
    const w = Math.max(columns * size.w, Math.min(7 * named.length, width));
    const h = title + Math.ceil(group.nodes.length / columns) * size.h;
    if (x > 0 && x + w - size.pad > width) {
      x = 0;
      y += shelf + blockGap - size.pad;
      shelf = 0;
    }
    blocks.push({ name: named, x, y: y + title - 7, w });
    group.nodes.forEach((node, i) => {
      spots[node] = { x: x + (i % columns) * size.w, y: y + title + Math.floor(i / columns) * size.h };
    });
    x += w + blockGap - size.pad;
    shelf = Math.max(shelf, h);
  }
  return { ...size, spots, order: groups.flatMap((g) => g.nodes), blocks, height: y + shelf };
}

// nodeAt returns the place of the node at a point of the map; -1: none.
export function nodeAt(layout, x, y) {
  return layout.spots.findIndex((s) => x >= s.x && x < s.x + layout.w && y >= s.y && y < s.y + layout.h);
}

// neighbourOf returns the place of the node that an arrow key leads to.
export function neighbourOf(layout, at, key) {
  if (at < 0) return layout.order[0];
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (step) return layout.order[layout.order.indexOf(at) + step] ?? at;
  const from = layout.spots[at];
  const sign = key === "ArrowDown" ? 1 : -1;
  let best = at, bestY = Infinity, bestX = Infinity;
  layout.spots.forEach((s, i) => {
    const y = sign * (s.y - from.y);
    const x = Math.abs(s.x - from.x);
    if (y > 0 && (y < bestY || (y === bestY && x < bestX))) [best, bestY, bestX] = [i, y, x];
  });
  return best;
}
