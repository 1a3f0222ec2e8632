// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package web is preemptd's page for browsers: the state of the cluster, the decisions and their reasons, and, for
// users with a token, the actions of package api. Page, style and scripts are in page/, embedded; the page loads no
// file from elsewhere.
//
//	request                         allowed to answer
//	───────                         ────────── ──────
//	GET /                           all        the page
//	GET /healthz                    all        200 while the process lives
//	GET /readyz                     all        200 if it works or stands by, journal and slurmrestd answer, Slurm would accept actions and, if it works, it saw the
//	                                           cluster in the last ten intervals, or the last minute; else 503. A line for each
//	GET /api/v1/state               all        which preemptd works, policies, tiers, actions, decisions
//	GET /api/v1/cluster             all        nodes and jobs, as the last tick saw them
//	GET /api/v1/nodes               all        how each node's proxyd is, as of the last question
//	GET /api/v1/timeline            all        time lines of jobs: ?hours=6 (1 to 24) &match=TEXT &limit=100 (1 to 500)
//	GET /api/v1/jobs/NUMBER         all        decisions for a job, actions and events on it, and its checkpoints
//	GET /api/v1/me                  a token    {name, operator, until, problems}
//	GET /api/v1/actions/NUMBER      a token    an action with its lines, as package api shows it
//	GET /api/v1/jobs/NUMBER/obstacles  a token the job's obstacles, as its proxyd says now; the job's owner and operators
//	POST /api/v1/jobs/JOB/VERB      a token    preempt, resume, migrate, resize, hold, release or requeue; 202 and the action
//
// The body of a POST is a JSON object with any of nodes and avoid (lists of host lists), node_count, gpus (on each
// node), qos, hold and reason. A refusal comes as {"kind", "error", "hint"} with the status that fits: 400, 401, 403,
// 404, 409, 503. Times are seconds since 1970, 0 for no time. Later releases may add fields; no field changes its
// meaning. Answers of the first five under /api have an ETag: a request with If-None-Match is answered by 304 until
// something has changed.
//
// # Tokens
//
// Preemptd signs a token for a user that sends a munge credential to its gRPC port
// (singctl token), and accepts the token in "Authorization: Bearer TOKEN". A token names the user and
// ends after an hour, or with the process. Requests with a token go through package api as
// if they had come with a credential of that user: the same rules, the same journal. There
// are no cookies, so that no other site can make a browser send requests in a user's name. Over
// plain HTTP tokens are taken on this machine's own addresses only.
//
// # Data for all users
//
// Without a token the page shows the same data as squeue and a job's comment: names of jobs and users, the actions on
// them and their reasons, and when and how large their checkpoints were. Slurm's PrivateData is not known here; a
// site with PrivateData leaves the page on the loopback address, or off. Of nodes the page shows whether their proxyd
// answers and the fault of their shared folder, in words without paths and errors. Internal errors are for operators;
// the processes of a job that cannot be captured are for its owner and for operators.
//
// # Memory of the page
//
// Time lines begin with this process and are kept for 24 hours, of 100 000 jobs at most; of
// decisions the last 200 are kept. Actions are the journal's.
package web
