// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package capsule makes the environment in which a job's programs run on a node: PID, mount, network, UTS, IPC and time
// namespaces, a host name, private /tmp, /var/tmp, /dev/shm and /dev/pts, and a first process of its own that outlives
// the daemon that made it.
//
// # The processes
//
//	maker      the process that calls Make or Adopt: the node's proxyd. kill -9 of the maker does not harm a capsule
//	init       PID 1 of the capsule, root; Init is its life
//	warden     the task that Slurm knows, outside the capsule's PID namespace (slurm-spank/warden)
//	program    the process that a warden has started in the capsule, with all its descendants
//	steward    a program's first process; everything in the program is below it, daemons
//	           too, for it is their subreaper. CRIU dumps the tree below it, and it ends as the program ends
//
//	init (PID 1)
//	 ├─ steward ── batch script ── …          "batch"
//	 │   └─ a daemon that the script left
//	 └─ steward ── python3                    "0.3"
//
// # The sockets
//
// Wardens reach init by an abstract socket in the capsule's network namespace; message.go draws the messages. Users in
// the capsule can connect to this socket too. A process with a PID in the capsule's PID namespace is no warden, and its
// connection is closed before a byte is read; a warden's uid must be the owner's or root's.
//
// A warden also shows init a pidfd of itself, from outside of the capsule's PID namespace. Init keeps the maker's /proc
// open, and looks up there which process the pidfd names, and its cgroup.
//
// The maker reaches init by a socket in the capsule's folder, which only root may enter; control.go draws the messages.
//
// # Cgroups
//
// Each program has a v2 cgroup of its own below its warden's cgroup. Without controllers the cgroup
// costs nothing and works beside v1; with them, Slurm's limits and accounting hold, because the
// cgroup is within the task's. The cgroup is made when the warden comes, before the program runs a
// single instruction or is restored, and is gone before the warden hears of the end, so that Slurm
// finds its own cgroup unchanged:
//
//	steward ends ─► cgroup.kill ─► populated 0 ─► rmdir ─► STATUS ─► warden ends ─► Slurm's rmdir
//
// The cgroup is root's, so no process of a user can leave it: a kill of the cgroup ends every process of a program,
// whatever its parent, session and user have become. Freeze freezes the cgroup, too.
//
//	<task's cgroup>/                  the warden
//	  sing-<capsule's ID>-<program>/  steward, program; or the processes that restore them
//
// # Mount points
//
// Mount points that the node does not have are made in the capsule only; place.go says how.
//
// # A capsule's folder
//
//	capsule.json   which process is the first; written before that process is let go
//	control        the socket
//	init.log       errors that init has logged
//	hosts          seen as /etc/hosts
//	containers     where the roots of containers are shown, if Spec.Containers names a place
//	tmp, var-tmp   seen as /tmp and /var/tmp, with the files that are there before Make
//
// # Locks
//
// In init:
//
//	server.mu          the table, the connections, and reaping: a registered process cannot
//	                   have been reaped, so its PID is its own. No call under it waits for
//	                   another process; the longest step is the move into a cgroup, 10 ms
//
// The maker needs no lock: a Capsule does not change.
//
// # Limits
//
//   - Where programs have no cgroups (no v2 in the kernel, or a kernel before 5.14): a user can kill
//     the user's own stewards. The processes below a steward then fall to init, and of these only the session
//     of the program's first process is found and killed; the others live until the capsule ends.
//     And a process that changed its user (sudo) outlives its program, unless the warden was killed.
//   - When init is killed, the programs' cgroups stay until Kill, Remove or Discard.
//   - A process that waits for a dead file server cannot be frozen, and is killed when the server
//     answers again; until then its warden waits, as slurmstepd would.
//   - A core dump is told to Slurm as the signal, without "(core dumped)".
//   - /sys is the host's: /sys/class/net does not show the capsule's network.
//   - A bind on a file of the node ends when the node removes that file or renames another
//     over it, as an upgrade of Slurm does with srun. Bind.Alone is for files that may be removed.
package capsule
