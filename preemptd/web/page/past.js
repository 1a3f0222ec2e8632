// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The past of a single job: its checkpoints, what was decided and done and why, and what of it
// cannot be captured.

import { get } from "./feed.js";
import { byId, bytes, clock, duration, el, now, refill, stateText } from "./text.js";
import { ask, seesJobsOf } from "./token.js";

const obstaclesEvery = 15; // s: proxyd looks at all processes of the job

let wanted = 0; // the job
let owner = "";
let asked = 0; // when for obstacles

const heading = (text) => el("h3", {}, text);

function checkpointRow(c) {
  const lies = c.problem ? `not usable: ${c.problem}` : c.uploading ? "on its nodes, not in the store yet" : "in the store";
  return el("tr", {}, el("td", { class: "number" }, String(c.number)), el("td", {}, clock(c.made)),
    el("td", { class: "number" }, bytes(c.captured)), el("td", { class: "number" }, bytes(c.stored)), el("td", {}, duration(c.took)),
    el("td", {}, c.nodes.join(", ")), el("td", { class: c.problem ? "wrong" : false }, lies), el("td", {}, c.reason));
}

function checkpoints(all) {
  if (all.length === 0) return [];
  const head = ["", "Made", "Captured", "Stored", "Took", "Of nodes", "Where it is", "Why"].map((text) => el("th", {}, text));
  return [heading("Checkpoints"), el("div", { class: "scroll" }, el("table", { id: "job-checkpoints" },
    el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...all.map(checkpointRow))))];
}

// entry is a line of the history: what, how it ended, why, by which policy or user.
const entry = (at, what, end, why, who) => ({ at, what, end, why, who });

function history(past) {
  const all = [
    ...past.actions.map((a) => entry(a.created, a.kind, a.ended ? `${stateText(a)}, took ${duration(a.ended - a.created)}` : stateText(a), a.why, `by ${a.who}, action ${a.id}`)),
    ...past.events.map((e) => entry(e.at, e.what, "", e.text, "")),
    ...past.decisions.filter((d) => d.rejected || d.outcome !== "begun").map((d) => entry(d.last, d.what, d.rejected ? `rejected: ${d.invariant}: ${d.outcome}` : d.outcome, d.reason, d.policy ? `policy ${d.policy}` : "")),
  ];
  all.sort((a, b) => b.at - a.at);
  if (all.length === 0) return [];
  return [heading("History"), el("ol", { class: "feed", id: "job-history", tabindex: 0 }, ...all.map((e) => el("li", {},
    el("div", { class: "top" }, el("span", { class: "what" }, e.what), el("span", {}, e.end), el("span", { class: "when" }, clock(e.at))),
    el("p", { class: "why" }, e.why), e.who ? el("p", { class: "why quiet" }, e.who) : null)))];
}

function obstacles(all) {
  return [heading("Cannot be captured"), el("ul", {}, ...all.map((o) => el("li", {},
    `${[o.where, o.what, o.cure].filter((s) => s).join(": ")}${o.since ? ` (since ${clock(o.since)})` : ""}`)))];
}

function showPast(past) {
  const problem = past.problem ? [el("p", { class: "wrong" }, past.problem)] : [];
  refill(byId("job-past"), past, () => [...problem, ...checkpoints(past.checkpoints), ...history(past)]);
}

function showObstacles(all) {
  refill(byId("job-obstacles"), all, () => (all.length ? obstacles(all) : []));
}

// openPast empties what was shown of another job, and shows a job's past.
export function openPast(job, user) {
  [wanted, owner, asked] = [job, user, 0];
  showPast({ checkpoints: [], actions: [], events: [], decisions: [] });
  showObstacles([]);
  refreshPast();
}

// refreshPast shows what has changed. A request that fails is made again with the next look, which says so.
export function refreshPast() {
  const job = wanted;
  if (!job) return;
  get(`api/v1/jobs/${job}`).then((past) => { if (job === wanted) showPast(past); }, () => {});
  if (!seesJobsOf(owner) || now() - asked < obstaclesEvery) return;
  asked = now();
  ask(`api/v1/jobs/${job}/obstacles`).then((said) => { if (job === wanted) showObstacles(said.obstacles); }, () => {});
}
