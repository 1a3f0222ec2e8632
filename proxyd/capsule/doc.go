// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package capsule makes what a job sees of a node: PID, mount, network, UTS, IPC and
// time namespaces, a host name, private /tmp, /var/tmp and /dev/shm, and a first
// process of its own that outlives the daemon that made it.
//
// # Who is who
//
//	maker      the process that calls Make or Adopt: the node's proxyd. kill -9 does a capsule nothing
//	init       PID 1 of the capsule, root; Init is its life
//	warden     the task that Slurm knows, outside the capsule's PID namespace (slurm-spank/warden)
//	program    what a warden has started in the capsule, with all that descends from it
//	steward    a program's first process; everything in the program is below it, daemons
//	           too, for it is their subreaper. It is what CRIU dumps, and it ends as the program ends
//
//	init (PID 1)
//	 ├─ steward ── batch script ── …          "batch"
//	 │   └─ a daemon that the script left
//	 └─ steward ── python3                    "0.3"
//
// # The sockets
//
// Wardens reach init by an abstract socket in the capsule's network namespace; message.go
// draws what is said. Users in the capsule can connect to it too. Whoever has a PID in
// the capsule's PID namespace is no warden, and its connection is closed before a byte of
// it was read; of a warden the uid must be the owner's or root's.
//
// The maker reaches init by a socket in the capsule's folder, which only root may enter;
// control.go draws what is said.
//
// # A capsule's folder
//
//	capsule.json   who the first process is; written before that process is let go
//	control        the socket
//	init.log       what init had to complain about
//	hosts          seen as /etc/hosts
//	tmp, var-tmp   seen as /tmp and /var/tmp; what is in them before Make, the capsule finds there
//
// # Locks
//
// In init, one:
//
//	server.mu          the table, the connections, and reaping: who is registered cannot
//	                   have been reaped, so its PID is its own. No call under it blocks
//
// In the maker none: a Capsule does not change.
//
// # Limits
//
//   - A user can kill his own stewards. What was below one falls to init, and of that only
//     the session of the program's first process is found and killed; the rest lives until
//     the capsule goes.
//   - A process that changed its user (sudo) and outlives its program is killed if the warden
//     was killed, but not at the program's ordinary end.
//   - A core dump is told to Slurm as the signal, without "(core dumped)".
//   - A process that is frozen by a cgroup's freezer dies when it is thawed.
//   - /sys is the host's: /sys/class/net does not show the capsule's network.
package capsule
