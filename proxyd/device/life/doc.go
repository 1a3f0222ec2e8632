// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package life starts, finds, commands and ends the device server of a capsule: a process, "proxyd device",
// that the node's daemon starts as the job's user and finds again after a restart of the daemon. Capsules that
// share a GPU have a process together: see shared.go.
//
//	daemon, root ── Start ──► proxyd device
//	   │                         waits at its gate: if the daemon dies, the server exits
//	   ├─ server.json            identity of the process
//	   ├─ gate ────────────────► becomes the user's (Become)
//	   │                         listens, serves
//	   ├─ DIR/control ──────────► orders (device/server/control.go), a connection for each
//	   │                 DIR/socket/device ◄── shims of the capsule
//	   ✗ kill -9                 the server goes on
//	daemon ── Find ─ DIR/control ► the same server
//	   └─ End ── SIGKILL ──────► ✗
//
// # A server's folder
//
// The folder belongs to root, with mode 0700.
//
//	server.json     boot, cgroup, PID and start time; written before the gate opens and before the server enters another cgroup
//	control         the socket for orders: only root may connect, and the server checks the peer's credentials as well
//	log             the server's messages; the server begins the log anew when the file has 1 MiB
//	socket/         the only part of the folder that the capsule gets, by a bind mount
//	socket/device   the socket for processes: only the user may connect
//
// # The rights of the process
//
// The server is root until the gate opens. Then it is the user, with the user's groups, no capability and no
// way to new privileges; it has a session of its own, the working directory /, an empty environment and no
// descriptors but those above. The server executes no program after it has become the user's, and is not
// dumpable: other processes of the user can send signals to the server, but can neither trace it nor open its
// files, so they cannot answer orders in its place. The daemon does not trust the server's answers in any
// case.
//
// Such a process may not read the kernel's facts about its own pages (/proc/self/pagemap); only root may. So the server
// opens that file while it is root, without the right to see physical addresses. Without the file, memory is never in
// common, and all of it counts as written.
//
// The server can read the memory of the job's processes all the same: the kernel's check depends on the
// credentials of the reader and on whether the process that is read is dumpable. The server is outside of the
// capsule's PID namespace: a shim sees the server as process 0, and allows every process of the user to trace
// the shim's process where the kernel (Yama) asks for that. A shim learns the server's user from the process
// that called listen, so the daemon binds the socket and the server calls listen.
package life
