// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package criu dumps and restores one program of a capsule with CRIU. Every image goes
// to a Sink while CRIU makes it and comes from a Source when CRIU asks for it: there is
// no second copy of a program's memory, on disk or anywhere else.
//
// # Who is who
//
//	caller ── this package ── nsenter ── setpriv ── criu ── the program
//	              │ ▲                                 │ ▲
//	              │ └──── streamer socket: image names┘ │
//	              │  ◄═══ one pipe an image ═══════════►│
//	              └────── gate: "post-dump", "go" ──────┘
//
// criu runs inside the capsule's namespaces, where the program is an ordinary process
// tree: there is no namespace to restore and nothing is external, save the pipes that
// the program began with. At a dump criu's real ids are the job's: the kernel lets root
// read a process's limits without CAP_SYS_RESOURCE only if the real ids are equal.
//
// # Why criu's command line, and not its RPC
//
// Images are streamed by `criu --stream`: criu connects to a socket in its images folder
// and sends the name and a pipe for each image (criu/img-streamer.c). The RPC service
// opens its images folder without saying whether it dumps or restores and then stops at a
// BUG() if streaming was asked for (criu/cr-service.c, setup_images_and_workdir). What go-criu
// brings here are the definitions of the images that this package reads.
//
// # Rights
//
// A dump runs as root with the job's real ids. A restore runs as the job's user, with the
// capabilities that make processes and none that overrides permissions (rights.go): what criu
// opens, makes and removes is at paths that the user can change. What the user owns and could not
// open again in that way criu is given open (handed.go). A program with System V objects is
// restored by root, for the kernel lets nobody else set the limits of an IPC namespace.
//
// # The images folder
//
// A tmpfs that is mounted nowhere; criu has it as a descriptor. It holds the socket, the
// gate's script and criu's statistics, and it is gone with the last process that has it.
//
// # The gate
//
// The pages that criu writes into a pipe are the program's own until they are read: it
// must not run before the last of them is taken. So criu calls a script when all images
// are written (post-dump), and the script waits for the word "go". If this process is
// gone, the script fails at once, and criu lets the program run on. A program whose cgroup
// was frozen does not run anyway, and needs no gate.
//
// At a restore the script is called when everything is open and mapped (post-restore), and then
// what processes have is compared with what they had (opened.go); CRIU kills them if this process
// refuses. It is called again when every thread stands in ptrace (pre-resume), to freeze the cgroup that
// is to be frozen, give back the input that was not read yet.
//
// # When something dies
//
//	this process    criu's pipes break. A dump is given up and the program runs on, or stays
//	                frozen if it was; a restore is given up and what there is of the tree is killed
//	the context     the same, by closing the pipes. Whoever does not end then is killed
//	criu            at a dump, the kernel lets the tasks go, and most go on as if nothing had
//	                been; one that had CRIU's code in it at that moment may die of it (2 of
//	                some 300 kills). Dump freezes the cgroup again if it was frozen. At a
//	                restore, Restore kills the half-made tree
//
// # Processes without a parent
//
// The root of a tree is a steward, to which all orphans fall. CRIU cannot restore those of
// another session than the root's; reaper.go tells why, and what is done about it.
//
// # Limits
//
//   - A user can kill criu while it dumps his own program, for its real uid is his.
//   - A file with another name that was opened by a name since removed is refused, unless
//     LinkRemoved has given it the kernel's name: CRIU keeps such a file by a hard link that it
//     removes again when the program is to run on.
//   - CRIU freezes a program without a cgroup by ptrace. One that was stopped is dumped as
//     stopped and is stopped when restored.
//   - System V objects are dumped with the whole IPC namespace. A program that was restored
//     with them has a namespace of its own, and shares none with the capsule's others.
//   - To restore an orphan CRIU needs a PID for a moment, next to the tree's. If another
//     program of the capsule has it, the restore fails; restored the other way round it works.
//   - A connection to a unix socket of another program that this one has not accepted yet
//     is dumped and cannot be restored.
//   - inotify cannot be dumped on overlay file systems.
//   - Processes are restored in a cgroup v2 only; in those of v1 they are where the caller is.
package criu
