// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The user that is signed in. The token is kept for this tab, and sent with requests that need a
// token, in a header that no other site can make a browser send.

import { byId, clock, now } from "./text.js";

const key = "singularity-token";

let me = null; // the answer of /api/v1/me; null: no user is signed in
let changed = () => {};

// ask sends a request with the token. Its error has preemptd's words.
export async function ask(path, body) {
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: { "Authorization": `Bearer ${sessionStorage.getItem(key)}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "omit", signal: AbortSignal.timeout(40000),
  });
  const said = await answer.json().catch(() => ({ error: `preemptd answered ${answer.status}` }));
  if (answer.status === 401) leave();
  if (!answer.ok) throw new Error(said.hint ? `${said.error} (${said.hint})` : said.error);
  return said;
}

// seesJobsOf says whether the user that is signed in may see what only the owner of a job may see.
export const seesJobsOf = (user) => me !== null && (me.operator || me.name === user);

function show() {
  const button = byId("sign");
  button.textContent = me ? `${me.name}: sign out` : "Sign in";
  button.title = me ? `${me.operator ? "operator, " : ""}until ${clock(me.until)}` : "";
  changed(me);
}

function leave() {
  sessionStorage.removeItem(key);
  me = null;
  show();
}

async function enter(token) {
  sessionStorage.setItem(key, token);
  try {
    me = await ask("api/v1/me");
  } catch (error) {
    leave();
    throw error;
  }
  setTimeout(leave, Math.max(0, (me.until - now()) * 1000));
  show();
}

// signIn opens the dialog.
export function signIn() {
  byId("signing-said").textContent = "";
  byId("token").value = "";
  byId("signing").showModal();
}

// startToken connects the form. told is called with the user that is signed in, or null, now and at
// each change.
export function startToken(told) {
  changed = told;
  byId("sign").addEventListener("click", () => (me ? leave() : signIn()));
  byId("signing-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await enter(byId("token").value.trim());
      byId("signing").close();
    } catch (error) {
      byId("signing-said").textContent = error.message;
    }
  });
  show();
  const kept = sessionStorage.getItem(key);
  if (kept) enter(kept).catch(() => {}); // the token ended meanwhile
}
