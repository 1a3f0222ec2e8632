// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The page, top to bottom: look at preemptd's state; when preemptd has seen the cluster again,
// get the cluster, the nodes' health and the timeline; show all.

import { feed, get } from "./feed.js";
import { allowActs, refreshJob, showJob, startJob } from "./job.js";
import { showActions, showDecisions, showHead, showJobs, showLooked, showTiers, showUseful, showTiles, startLists, startSorting } from "./lists.js";
import { showMap, startMap } from "./map.js";
import { problems, showNodes } from "./nodes.js";
import { ago, byId, clock, duration, now } from "./text.js";
import { showTimeline, startTimeline } from "./timeline.js";
import { startToken } from "./token.js";

let state = null;
let cluster = { nodes: [], jobs: [] };
let nodes = []; // how their proxyds are
let seen = ""; // which tick is shown
let answered = 0; // when preemptd answered last
let failing = null; // {until}: preemptd does not answer

async function look() {
  state = await get("api/v1/state");
  answered = now();
  showHead(state);
  showTiles(state);
  showTiers(state.tiers);
  showUseful(state.useful);
  showDecisions(state);
  showActions(state);
  const tick = `${state.role} ${state.ticked} ${state.number}`;
  if (tick !== seen) {
    cluster = await get("api/v1/cluster");
    nodes = (await get("api/v1/nodes")).nodes;
    showMap(cluster, problems(nodes));
    showNodes(nodes, cluster, state.proxyds);
    showJobs(cluster);
    refreshJob(cluster);
    await timeline();
    seen = tick;
  }
  stale();
  document.body.dataset.ready = "yes";
  return Math.min(10, Math.max(1, state.interval));
}

async function timeline() {
  const query = new URLSearchParams({ hours: byId("hours").value, match: byId("match").value.trim() });
  showTimeline(await get(`api/v1/timeline?${query}`));
}

function failed(failures, wait) {
  failing = failures ? { until: now() + wait } : null;
  stale();
}

// stale says that what is shown is old, as soon as that is possible.
function stale() {
  const banner = byId("stale");
  let text = "";
  if (failing) {
    const next = Math.max(0, failing.until - now());
    const since = answered ? `since ${clock(answered)}. What is shown is as it was then` : "";
    text = `preemptd does not answer ${since}. ${next > 1 ? `Trying again in ${duration(next)}.` : "Trying again …"}`;
  } else if (state?.ticked && now() - state.ticked > Math.max(30, 4 * state.interval)) {
    text = `preemptd has not seen the cluster since ${clock(state.ticked)}, ${ago(state.ticked)}: Slurm may be away. What is shown is as it was then.`;
  }
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = text === "";
}

// themes are what the button goes through; the first is the system's own.
const themes = ["auto", "light", "dark"];

function startTheme(redraw) {
  const button = byId("theme");
  const set = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    redraw();
  };
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(localStorage.getItem("theme") || "auto") + 1) % themes.length];
    localStorage.setItem("theme", next);
    set(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  set(themes.find((t) => t === localStorage.getItem("theme")) || "auto");
}

function start() {
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  const redraw = startMap(showJob);
  startTheme(redraw);
  startTimeline(showJob);
  startLists(showJob);
  const turn = feed(look, failed);
  startJob(turn);
  startToken(allowActs);
  byId("find").addEventListener("input", () => showJobs(cluster));
  byId("find-node").addEventListener("input", () => state && showNodes(nodes, cluster, state.proxyds));
  startSorting(() => showJobs(cluster));
  byId("rejected").addEventListener("change", () => state && showDecisions(state));
  byId("hours").addEventListener("change", () => timeline().catch(() => {})); // the next look says so
  let typing = 0;
  byId("match").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => timeline().catch(() => {}), 300);
  });
  setInterval(() => {
    if (state) showLooked(state);
    stale();
  }, 1000);
}

start();
