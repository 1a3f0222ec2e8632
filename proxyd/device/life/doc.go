// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package life is the life of a capsule's device server: a process, "proxyd device", that the node's daemon starts as the job's
// user, finds again after its own restart, gives orders to, and ends.
//
//	daemon, root ── Start ──► proxyd device
//	   │                         waits at its gate: if the daemon dies, it ends
//	   ├─ server.json            who it is
//	   ├─ gate ────────────────► becomes the user's (Become)
//	   │                         listens, serves
//	   ├─ DIR/control ──────────► orders (device/server/control.go), one connection each
//	   │                 DIR/socket/device ◄── shims of the capsule
//	   ✗ kill -9                 goes on
//	daemon ── Find ─ DIR/control ► the same server
//	   └─ End ── SIGKILL ──────► ✗
//
// # A server's folder
//
// It is root's alone, mode 0700.
//
//	server.json     boot, cgroup, PID and start time; written before it is let go, or enters another cgroup
//	control         the socket for orders: root's alone as well, and the server looks at who has connected
//	log             what it has to say; it begins anew when it has 1 MiB, which the server sees to
//	socket/         all that the capsule gets of it, by a bind mount
//	socket/device   the socket for processes, which is the user's alone
//
// # What the process is
//
// Root until it is let go, then the user, with his groups, no capability and no way to new privileges; in a session of its own, in /,
// with an empty environment and no descriptor but these. It executes nothing after it has become the user's and is not dumpable:
// processes of the same user can send it signals, but neither trace it nor open its files, so they cannot speak for it. The daemon
// does not trust what it says anyhow.
//
// That does not hinder the server in what it does with the job's processes: who may read whose memory depends on who the reader is,
// and on whether the other one is dumpable. It is outside of the capsule's PID namespace, where a shim sees it as process 0 and
// allows everyone of the user's to trace it, if the kernel asks for that (Yama). Shims learn whose the server is from who listens:
// so the daemon makes the socket, and the server listens.
package life
