// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package criu dumps and restores a program of a capsule with CRIU. Every image goes to a Sink
// while CRIU makes it and comes from a Source when CRIU asks for it: there is no second copy of a
// program's memory, on disk or anywhere else.
//
// # The processes
//
//	caller ── this package ── nsenter ── setpriv ── criu ── the program
//	              │ ▲                                 │ ▲
//	              │ └──── streamer socket: image names┘ │
//	              │  ◄═══ a pipe for each image ═══════►│
//	              └────── gate: "post-dump", "go" ──────┘
//
// criu runs inside the capsule's namespaces, where the program is an ordinary process tree: criu restores no namespace,
// and no file is external, save the pipes that the program began with.
//
// # Why criu's command line, and not its RPC
//
// Images are streamed by `criu --stream`: criu connects to a socket in its images folder and sends the name and a pipe
// for each image (criu/img-streamer.c). The RPC service opens its images folder without saying whether it dumps or
// restores and then stops at a BUG() if streaming was asked for (criu/cr-service.c, setup_images_and_workdir). This
// package uses go-criu only for the definitions of the images.
//
// # Rights
//
// A dump runs as the job's user, with the capabilities that read other processes, behind a filter of system calls and
// with a bound of its memory (confine.go): criu parses data that the user's processes choose. A restore runs as the
// job's user, with the capabilities that make processes and without those that override permissions (rights.go): the
// user can change the paths at which criu opens, makes and removes files. Where the user owns a file and could not open
// it again in the same way, criu is given the open file (handed_files.go). Before Linux 5.17 the kernel lets only root
// choose the numbers of System V objects: a program with such objects is restored by root if the site allows that, and
// else not at all (sysv.go).
//
// # The images folder
//
// The images folder is a tmpfs that is mounted nowhere; criu has it as a descriptor. The folder holds the socket, the
// gate's script and criu's statistics, and is gone with the last process that has it open.
//
// # The gate
//
// The pages that criu writes into a pipe are the program's own until they are read: the program
// must not run before the last page is taken. So criu calls a script when all images are written
// (post-dump), and the script waits for the word "go". If this process is gone, the script fails at
// once, and criu lets the program run on. A program in a frozen cgroup does not run anyway,
// and needs no gate.
//
// At a restore criu calls the script when everything is open and mapped (post-restore). Then this package compares the
// files that processes have open with those of the dump (opened.go); CRIU kills the processes if this process refuses.
// criu calls the script again when every thread stands in ptrace (pre-resume): then this package freezes the cgroup
// that is to be frozen, puts back the input that was not read yet, sets the attributes that CRIU does not know of
// (attributes.go), and has the C library know its libraries by the files of this node (libraries.go).
//
// # When a process dies
//
//	this process    criu's pipes break. A dump is given up and the program runs on, or stays
//	                frozen if it was; a restore is given up and the half-made tree is killed
//	the context     the same, by closing the pipes. A criu that does not end then is killed
//	criu            at a dump, the kernel lets the tasks go, and most go on undisturbed; a task
//	                that had CRIU's code in it at that moment may die (2 of some 300 kills).
//	                Dump freezes the cgroup again if it was frozen, and kills the processes that
//	                criu has left in the capsule. Restore kills the half-made tree
//
// # Processes without a parent
//
// The root of a tree is a steward, to which all orphans fall. CRIU cannot restore orphans of another session than the
// root's; reaper.go tells why, and how this package restores them.
//
// # Message queues
//
// For CRIU an open POSIX message queue is an external file. The caller captures the messages, and makes the queues
// again in the capsule's IPC namespace; Restore opens them for criu, and makes the queues of a program that has an IPC
// namespace of its own (queues.go).
//
// # Unix sockets to outside
//
// A connection to a daemon of the node stays when the program goes on in place, and is closed in a restored program
// (outside.go).
//
// # Terminals
//
// CRIU gives a terminal to the first process of its session alone, and refuses an open /dev/tty in cases that it could
// restore. A restore makes the terminals itself, so that all processes of the sessions have them (terminals.go), and a
// dump gets around the refusal (ctty.go).
//
// # Limits
//
//   - A user can kill criu during a dump of the user's own program: criu's uid is the user's.
//   - A file with another name that was opened by a name since removed is refused, unless
//     LinkRemoved has given the file the kernel's name: CRIU keeps such a file by a hard link, and
//     removes the link when the program is to run on.
//   - CRIU freezes a program without a cgroup by ptrace. A stopped program is dumped as
//     stopped and is stopped when restored.
//   - System V objects are dumped with the whole IPC namespace. A program that was restored
//     with them has a namespace of its own, and shares no objects with the capsule's other programs.
//   - To restore an orphan CRIU needs a PID for a moment, next to the tree's. If another
//     program of the capsule has that PID, the restore fails; in the other order the restores work.
//   - A connection to a unix socket of another program that the other program has not accepted
//     yet is dumped and cannot be restored.
//   - inotify cannot be dumped on overlay file systems: CRIU may take another file for the watched file.
//   - Processes are restored in a cgroup v2 only; in cgroups of v1 they are where the caller is.
package criu
