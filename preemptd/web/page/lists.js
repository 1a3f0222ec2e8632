// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// What is said in words: numbers, tiers, decisions, actions, the table of jobs.

import { ago, byId, clock, count, duration, el, gpusText, percent, refill, stateText } from "./text.js";

const most = 100; // jobs in the table

let open = () => {};

// startLists takes what is called with the id of a job that was chosen.
export function startLists(opener) { open = opener; }

const jobLink = (id, text) => el("button", { type: "button", class: "link", click: () => open(id) }, text);

const roles = {
  "works": ["works", "works"],
  "waits": ["waits", "stands by"],
  "dry run": ["dry", "dry run"],
  "starts": ["starts", "starts"],
};

// showHead fills in the line at the top, and what must be known before anything below is read.
export function showHead(state) {
  byId("cluster").textContent = state.cluster;
  const [kind, text] = roles[state.role] || ["", state.role];
  const role = byId("role");
  role.className = `chip ${kind}`;
  role.textContent = text;
  byId("version").textContent = `preemptd ${state.version}${state.holder ? `, ${state.holder} works` : ""}`;
  const notice = byId("notice");
  notice.textContent = {
    "waits": `This preemptd stands by. ${state.holder || "Nobody"} works; this one takes over when that ends.`,
    "dry run": "Dry run: this preemptd says what it would do, and does nothing.",
    "starts": "This preemptd waits for slurmrestd. Nothing is known of the cluster yet.",
  }[state.role] || state.problem || "";
  notice.hidden = notice.textContent === "";
}

export function showLooked(state) {
  byId("looked").textContent = state.ticked ? `saw the cluster ${ago(state.ticked)}` : "has not seen the cluster yet";
}

function tile(title, value, detail, short = false) {
  return el("div", {}, el("dt", {}, title), el("dd", { class: short && "short" }, value.toLocaleString("en"), " ", el("small", {}, detail)));
}

export function showTiles(state) {
  const t = state.totals;
  const below = state.tiers.reduce((n, tier) => n + tier.below, 0);
  const sick = state.proxyds.silent + state.proxyds.unsound;
  byId("tiles").replaceChildren(
    tile("GPUs in use", t.used, `of ${t.gpus.toLocaleString("en")}`),
    tile("Jobs that run", t.running, ""),
    tile("Jobs that wait", t.waiting, t.held ? `and ${t.held.toLocaleString("en")} held` : ""),
    tile("Nodes up", t.up, [`of ${t.nodes.toLocaleString("en")}`, sick ? `${count(sick, "proxyd")} with a problem` : ""].filter((s) => s).join(", "), sick > 0),
    tile("Actions", state.under_way.length, "under way"),
    tile("Below promise", below, count(below, "job").replace(/^\S+ /, ""), below > 0),
  );
}

export function showTiers(tiers) {
  refill(byId("tiers"), tiers, () => tiers.map((t) => {
    const filled = el("i", { class: t.name });
    filled.style.width = `${100 * Math.min(1, t.counted ? t.delivered : 0)}%`;
    const bar = el("div", { class: "bar", role: "img", "aria-label": `${t.name}: ${t.counted ? percent(t.delivered) : "nothing"} delivered, ${percent(t.promised)} promised` }, filled);
    if (t.promised > 0) {
      const promised = el("b");
      promised.style.left = `calc(${100 * t.promised}% - 1px)`;
      bar.append(promised);
    }
    const short = t.counted && t.below > 0; // the rule of the tile "Below promise"
    const detail = [
      t.promised > 0 ? `promised ${percent(t.promised)}` : "best effort", `${count(t.gpus, "GPU")}`, `${t.running} run, ${t.waiting} wait`,
      t.below ? `${count(t.below, "job")} below` : "",
    ].filter((s) => s);
    return el("div", { class: "tier" }, el("span", { class: "name" }, t.name), bar,
      el("span", { class: short ? "share short" : "share" }, t.counted ? percent(t.delivered) : "–"),
      el("span", { class: "detail" }, detail.join(" · ")),
      t.unkept && el("span", { class: "detail short" }, t.unkept));
  }));
}

const usefulCell = (share) => el("td", { class: "number", title: `${share.hours.toFixed(1)} GPU hours` }, share.hours > 0 ? percent(share.useful) : "–");

// showUseful shows of each day how much of the GPU time that jobs held was useful work.
export function showUseful(days) {
  byId("useful").hidden = days.length === 0;
  refill(byId("useful-rows"), days, () => days.map((d) => el("tr", {},
    el("th", { scope: "row" }, d.day), el("td", { class: "number" }, d.all.hours.toFixed(1)), usefulCell(d.all), ...d.tiers.map(usefulCell),
    el("td", {}, d.users.map((u) => `${u.name} ${percent(u.useful)}`).join(", ")))));
}

const nothing = (text) => el("li", { class: "nothing" }, text);

// verdict is a word for the result of a decision, and the class of its badge.
function verdict(d) {
  if (d.rejected) return ["rejected", d.invariant ? `rejected: ${d.invariant}` : "rejected"];
  if (d.outcome === "begun" || d.outcome === "dry run") return ["begun", d.outcome];
  return ["waits", "not begun"];
}

export function showDecisions(state) {
  const names = state.policies.map((p) => `${p.name}${p.until ? ` (rests until ${clock(p.until)})` : p.problem ? " (has a problem)" : ""}`);
  byId("policies").textContent = names.length ? `Policies, in the order in which they are asked: ${names.join(", ")}` : "No policies: what people ask is done, and nothing else.";
  const shown = state.decisions.filter((d) => !d.rejected || byId("rejected").checked);
  refill(byId("decisions"), shown, () => (shown.length ? shown.map(decisionItem) : [nothing("Nothing was decided yet.")]));
}

function decisionItem(d) {
  const [kind, word] = verdict(d);
  const outcome = kind === "begun" ? "" : d.outcome;
  return el("li", {},
    el("div", { class: "top" }, el("span", { class: "what" }, jobLink(d.job, d.what)), el("span", { class: `badge ${kind}` }, word),
      el("span", { class: "when" }, d.times > 1 ? `${clock(d.first)} to ${clock(d.last)}` : clock(d.last))),
    el("p", { class: "why" }, d.reason),
    el("p", { class: "why quiet" }, [d.policy ? `policy ${d.policy}` : "", outcome].filter((s) => s).join("; ")));
}

function actionItem(a) {
  const when = a.ended ? `${clock(a.ended)}, took ${duration(a.ended - a.created)}` : `since ${clock(a.created)}`;
  return el("li", {},
    el("div", { class: "top" }, el("span", { class: "what" }, jobLink(a.job, `${a.kind} job ${a.job}`)),
      el("span", { class: `badge ${a.state}` }, stateText(a)), el("span", { class: "when" }, when)),
    el("p", { class: "why" }, a.why),
    el("p", { class: "why quiet" }, `by ${a.who}, action ${a.id}`));
}

export function showActions(state) {
  const all = [...state.under_way, ...state.recent];
  refill(byId("actions"), all, () => (all.length ? all.map(actionItem) : [nothing("Nothing was done yet.")]));
}

// where names a job's nodes, some of them.
function where(job, nodes) {
  const names = (job.shares || []).map((s) => nodes[s.node]?.name).filter((n) => n);
  return names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}

const order = ["running", "leaving", "suspended", "waiting", "held", "deferred"];

const tiers = ["basic", "standard", "premium"];
const names = new Intl.Collator("en", { numeric: true });

// columns compare jobs by what a column shows.
const columns = {
  id: (a, b) => a.id - b.id,
  name: (a, b) => names.compare(a.name, b.name),
  user: (a, b) => names.compare(a.user, b.user),
  tier: (a, b) => tiers.indexOf(b.tier) - tiers.indexOf(a.tier),
  state: (a, b) => order.indexOf(a.state) - order.indexOf(b.state),
  gpus: (a, b) => b.gpus - a.gpus,
  fraction: (a, b) => a.fraction - b.fraction,
};

let sorted = ""; // the column; empty: by state, tier and age
let turned = false;

// startSorting has the heads of the table of jobs sort it: once again for the reverse, a third time for
// the order of the beginning.
export function startSorting(redraw) {
  const buttons = [...document.querySelectorAll("#jobs-columns [data-sort]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const column = button.dataset.sort;
      if (sorted !== column) [sorted, turned] = [column, false];
      else if (turned) [sorted, turned] = ["", false];
      else turned = true;
      for (const b of buttons) {
        if (b.dataset.sort === sorted) b.closest("th").setAttribute("aria-sort", turned ? "descending" : "ascending");
        else b.closest("th").removeAttribute("aria-sort");
      }
      redraw();
    });
  }
}

export function showJobs(cluster) {
  const words = byId("find").value.toLowerCase().split(/\s+/).filter((w) => w);
  const found = cluster.jobs.filter((j) => {
    const text = [j.label, j.name, j.user, j.partition || "", j.state, j.tier, j.action || ""].join(" ").toLowerCase();
    return words.every((w) => text.includes(w));
  });
  const chosen = columns[sorted] ? (a, b) => (turned ? -1 : 1) * columns[sorted](a, b) : () => 0;
  found.sort((a, b) => chosen(a, b) || order.indexOf(a.state) - order.indexOf(b.state) || b.promised - a.promised || b.id - a.id);
  const shown = found.slice(0, most);
  refill(byId("jobs"), shown, () => shown.map((j) => el("tr", {},
    el("td", {}, jobLink(j.id, j.label)), el("td", {}, j.name), el("td", {}, j.user),
    el("td", {}, el("i", { class: `swatch ${j.tier}` }), j.tier),
    el("td", {}, j.action ? `${j.state}, ${j.action}` : j.state),
    el("td", { class: "number" }, gpusText(j)),
    el("td", { class: j.below ? "number short" : "number" }, percent(j.fraction)),
    el("td", {}, where(j, cluster.nodes)))));
  const more = found.length - most;
  byId("jobs-more").textContent = cluster.jobs.length === 0 ? "There are no jobs." : more > 0 ? `${more.toLocaleString("en")} more; name what you look for.` : "";
}

const row = (name, value) => (value ? [el("dt", {}, name), el("dd", {}, value)] : []);

// jobFacts is all that is known of a job.
export function jobFacts(job, cluster) {
  const facts = [
    ["Name", job.name], ["User", [job.user, job.account].filter((s) => s).join(", ")],
    ["Tier", `${job.tier}${job.qos ? `, QOS ${job.qos}` : ""}${job.promised ? `, promised ${percent(job.promised)}` : ", best effort"}`],
    ["GPU time", percent(job.fraction)],
    ["State", [job.state, job.held_by && `held by ${job.held_by}`, job.action && `${job.action} under way`].filter((s) => s).join(", ")],
    ["GPUs", `${job.shares ? gpusText(job) : `waits for ${job.gpus}`}; asked for ${count(job.request, "GPU")} on ${count(job.nodes, "node")}`], ["Where", where(job, cluster.nodes)],
    ["Submitted", job.submitted ? `${clock(job.submitted)}, ${ago(job.submitted)}` : ""],
    ["Started", job.started ? `${clock(job.started)}, ${ago(job.started)}` : ""],
    ["Checkpoint", job.saved ? `${clock(job.saved)}, ${ago(job.saved)}` : "none yet"],
    ["Requeued", job.restarts ? count(job.restarts, "time") : ""], ["Not preemptable", job.obstacle],
  ];
  return el("dl", {}, ...facts.flatMap(([name, value]) => row(name, value)));
}

