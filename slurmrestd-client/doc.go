// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package slurmrest speaks to slurmrestd, Slurm's REST server, of every release from 22.05 to
// 26.05, in one neutral model. The package imports only the standard library, and does not log,
// read the environment or exit.
//
//	c, err := slurmrest.New(slurmrest.Config{Address: "unix:/run/slurmrestd/slurmrestd.sock"})
//	…
//	info, err := c.EachJob(ctx, time.Time{}, func(j *slurmrest.Job) error { … })
//
// # Which version
//
// Slurm changes its REST API with every release and serves three or four versions at a time. The
// client knows four (V0038 … V0045; any release serves at least one of the four), pings them from
// the newest to the oldest before its first request, and keeps the version found. When the server
// answers a path with the router's 404, the server was replaced by another release: the client
// pings again and repeats the request, which is safe, since the router refuses before anything is
// done. A 401 ends the negotiation, since a server that does not know us answers 401 to every
// version.
//
// Where versions differ, the code is in the dialects, a file each. A feature that a version lacks
// is an UnsupportedError that names the version that has it.
//
// # The user of a request
//
// Over TCP, a token (Config.Token) is sent with each request and read again for each request. Over
// a unix socket without a token, slurmrestd takes root, or the user that slurmrestd runs as, and
// asks slurmctld as its own user: give that user the rights of an operator. Config.AsUser needs a
// token of root's or SlurmUser's; munge, which the socket implies, knows no other user than the
// signer.
//
// slurmrestd passes a token on without a look inside. slurmctld or slurmdbd refuses an expired
// token. If the refusal does not name the token as its reason, the client asks the other daemon; in
// both cases the error is ErrAuth.
//
// # Errors
//
// errors.Is compares with the meanings in errors.go, which come from Slurm's error numbers by a
// single table; errors.As with *Error gives the number and Slurm's own text. The HTTP status is not
// used to tell errors apart: releases answer 200, 422, 500 or 404 to the same refusal, and an
// answer of 200 that lists errors is an error.
//
// A request that changes nothing is sent up to three times when its connection breaks or Slurm
// calls the refusal transient. A request that changes something is sent a single time, on a
// connection of its own. If its answer is lost, the error is ErrUncertain: look before asking
// again.
//
// # Lists by update time
//
// EachJob takes the time of an earlier list (ListInfo.Next) and reports "nothing changed"
// (ListInfo.Changed) if slurmctld does. If anything changed, the list has all jobs: Slurm sends no
// deltas. From v0.0.40 on, Next is the server's own time; over v0.0.38, Next is this host's clock
// before the request, less Config.ClockSkew, so that a change is rather reported twice than missed.
//
// A list is read job by job through a window of 64 KiB. Config.MaxBody and
// Config.MaxRecord limit the bytes that a server can make the client read and keep.
//
// # Requeueing
//
// There are three routes, and Requeue takes the first that the cluster has:
//
//	rest       POST jobs/requeue                       from Slurm 26.05 on
//	scontrol   scontrol requeue, requeuehold           Config.Scontrol
//	exit-code  a signal; the job's own wrapper exits   Config.RequeueExit, and
//	           with the site's RequeueExit=            RequeueExit= in slurm.conf
//
// RequeueRoutes tells for each route whether this cluster has it, with the reason if not. The
// exit-code route is asynchronous: the job has been asked, and WaitRequeued waits until the job is
// back. A job with a script that does not know the protocol dies of the signal.
package slurmrest
