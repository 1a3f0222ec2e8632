// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Asks preemptd again and again, less often while there is no answer or the page is hidden.

import { serverClock } from "./text.js";

const patience = 15000; // ms for an answer
const hiddenEvery = 30; // s, while the page is in the background
const longest = 30; // s between two tries

// get returns the JSON at a path. What is unchanged, the browser has: answers carry ETags.
export async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(patience), credentials: "omit" });
  if (!answer.ok) throw new Error(`preemptd answered ${answer.status}`);
  serverClock(answer.headers.get("Date"));
  return answer.json();
}

// feed calls look until the page is closed. look returns after how many seconds it wants to
// be called again. failed is told of each failure in a row, and in how many seconds the next
// try is; with 0 failures, that there is none any more.
export function feed(look, failed) {
  let failures = 0;
  let timer = 0;
  let busy = false;
  const turn = async () => {
    if (busy) return;
    busy = true;
    clearTimeout(timer);
    let wait;
    try {
      wait = await look();
      if (failures > 0) failed(0, 0);
      failures = 0;
    } catch (error) {
      failures++;
      wait = Math.min(longest, 2 ** Math.min(failures, 5)) * (0.75 + Math.random() / 2);
      failed(failures, wait, error);
    }
    busy = false;
    if (document.hidden) wait = Math.max(wait, hiddenEvery);
    timer = setTimeout(turn, wait * 1000);
  };
  document.addEventListener("visibilitychange", () => document.hidden || turn());
  turn();
  return turn;
}
