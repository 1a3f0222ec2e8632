// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A single job: what is known of the job, and the actions that people may request.

import { jobFacts } from "./lists.js";
import { highlight } from "./map.js";
import { openPast, refreshPast } from "./past.js";
import { byId, clock, el, jobTitle, stateText } from "./text.js";
import { ask, signIn } from "./token.js";

const dialog = byId("job");
const form = byId("act");
const said = byId("act-said");

const verbs = {
  preempt: ["Preempt", "A checkpoint is made, and the job goes back into the queue. It goes on from there."],
  resume: ["Resume", "A job that is held goes on."],
  migrate: ["Migrate", "A checkpoint is made, and the job goes on at once on other nodes."],
  resize: ["Resize", "A checkpoint is made, and the job goes on on more or fewer GPUs. It has as many tasks as before."],
  hold: ["Hold", "A job that waits does not start until it is released."],
  release: ["Release", "A job that is held waits for its turn again."],
  requeue: ["Requeue", "As preempt, for a job that runs; it may go on with another QOS, and so in another tier."],
};

let shown = 0; // the job
let cluster = { jobs: [], nodes: [] };
let acted = () => {};

function render() {
  const job = cluster.jobs.find((j) => j.id === shown);
  byId("job-title").textContent = job ? `Job ${jobTitle(job)}` : `Job ${shown}`;
  byId("job-body").replaceChildren(job ? jobFacts(job, cluster) : el("p", {}, "It has ended, or preemptd has not seen it yet."));
}

function chosenVerb() {
  const verb = new FormData(form).get("verb");
  const [name, text] = verbs[verb];
  byId("do").textContent = name;
  byId("verb-text").textContent = text;
  for (const field of form.querySelectorAll("[data-for]")) field.hidden = !field.dataset.for.split(" ").includes(verb);
  return verb;
}

// request is the body of what is asked for.
function request(verb) {
  const given = new FormData(form);
  const list = (name) => given.get(name).split(/\s+/).filter((s) => s);
  const body = { reason: given.get("reason") };
  if (verb === "preempt" || verb === "requeue") body.hold = given.get("hold") !== null;
  if (verb === "requeue") body.qos = given.get("qos").trim();
  if (verb === "migrate") Object.assign(body, { nodes: list("nodes"), avoid: list("avoid") });
  if (verb === "resize") Object.assign(body, { node_count: Number(given.get("node_count")), gpus: Number(given.get("gpus")) });
  return body;
}

// follow says how an action goes, until the action has ended or another job is shown.
async function follow(id, job) {
  while (shown === job) {
    const a = await ask(`api/v1/actions/${id}`);
    if (shown !== job) return;
    const end = a.ended ? `${stateText(a)} at ${clock(a.ended)}` : `${stateText(a)} …`;
    said.textContent = `Action ${a.id}: ${a.kind}: ${end}${a.problem ? `; ${a.problem}` : ""}`;
    if (a.ended) return;
    await new Promise((done) => setTimeout(done, 1500));
  }
}

async function submit(event) {
  event.preventDefault();
  const verb = chosenVerb();
  const job = cluster.jobs.find((j) => j.id === shown);
  const button = byId("do");
  button.disabled = true;
  said.className = "";
  said.textContent = "asked …";
  try {
    const begun = await ask(`api/v1/jobs/${encodeURIComponent(job ? job.label : shown)}/${verb}`, request(verb));
    acted();
    await follow(begun.id, shown);
  } catch (error) {
    said.className = "wrong";
    said.textContent = error.message;
  }
  button.disabled = false;
}

// showJob opens the dialog.
export function showJob(id) {
  shown = id;
  said.textContent = "";
  said.className = "";
  form.reset();
  chosenVerb();
  render();
  openPast(id, cluster.jobs.find((j) => j.id === id)?.user);
  highlight(id);
  if (!dialog.open) dialog.showModal();
}

// refreshJob shows what has changed.
export function refreshJob(now) {
  cluster = now;
  if (!dialog.open) return;
  render();
  refreshPast();
}

// allowActs shows the buttons to a user that is signed in.
export function allowActs(me) {
  if (me && dialog.open) refreshPast();
  form.hidden = !me;
  byId("act-sign").hidden = Boolean(me);
}

// startJob connects the form. told is called when an action was begun.
export function startJob(told) {
  acted = told;
  form.addEventListener("change", chosenVerb);
  form.addEventListener("submit", submit);
  byId("act-sign-button").addEventListener("click", signIn);
  // The browser tells of the closing later: by then another job may be shown.
  dialog.addEventListener("close", () => { if (!dialog.open) { shown = 0; openPast(0, ""); highlight(0); } });
}
