// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The messages between the node's proxyd and the plugin or sing-srun. The other end is
 * proxyd/nodesocket/message.go.
 *
 * The sockets are SOCK_SEQPACKET. A packet is a message: strings that each end in a NUL
 * byte, first the verb, then key=value. A value may have any bytes but NUL. A receiver ignores a key that it
 * does not know; a key that comes twice makes the message invalid. Descriptors travel beside the packet. The
 * first key of a request is version.
 *
 *	plugin, of each task                         proxyd
 *	────────────────────                         ──────
 *	join job, step, task, … ──────────────────►  may take as long as a restore
 *	                                        ◄──  ok mode=fresh|restore name, namespaces
 *	                                        ◄──  ok mode=plain [reason]: run the task outside of a capsule
 *	                                        ◄──  ok mode=finished status: the task has ended before
 *	                                        ◄──  no reason: the task must fail
 *	terminate ────────────────────────────────►  on the same connection, before the answer: a task of
 *	                                             a step was sent SIGTERM. proxyd asks Slurm why, and
 *	                                             answers the join as ever, or no
 *
 *	plugin, of each node, when the job is over
 *	end job, uid ─────────────────────────────►  removes the rest of the job here
 *	                                        ◄──  ok
 *
 *	sing-srun, in a capsule
 *	srun key, 5 descriptors ──────────────────►  starts the real srun
 *	signal key, signal ───────────────────────►  sends the signal to the real srun
 *	requeue, a pipe ──────────────────────────►  notes that the program is about to have Slurm requeue a job
 *
 * proxyd does not answer sing-srun on its socket: srun/srun.h draws the way of the answers.
 */
#ifndef SING_WIRE_H
#define SING_WIRE_H

#define SING_SPANK_SOCKET "/run/singularity-slurm/spank.sock" /* mode 0600: the plugin */
#ifndef SING_SRUN_SOCKET /* tests of sing-srun have a socket of their own */
#define SING_SRUN_SOCKET "/run/singularity-slurm/srun.sock"   /* mode 0666: sing-srun */
#endif

#define SING_WIRE_VERSION "1"

enum {
	SING_PACKET_SIZE = 64 * 1024, /* no message is longer */
	SING_PACKET_KEYS = 256,	      /* nor has more keys */
	SING_PACKET_FDS = 8,	      /* nor comes with more descriptors */
};

/* Verbs. */
#define SING_JOIN "join"
#define SING_TERMINATE "terminate"
#define SING_END "end"
#define SING_SRUN "srun"
#define SING_FORWARD "signal"
#define SING_REQUEUE "requeue"
#define SING_OK "ok"
#define SING_NO "no"

/* Keys of every request, and of a refusal. */
#define SING_KEY_VERSION "version"
#define SING_KEY_REASON "reason" /* for the user to read */
#define SING_KEY_ERRNO "errno"	 /* EPROTONOSUPPORT: proxyd does not speak this version */

/* Keys of join; job and uid are also those of end. */
#define SING_KEY_JOB "job"
#define SING_KEY_STEP "step" /* a number, or SING_STEP_BATCH */
#define SING_KEY_TASK "task" /* as the whole step counts */
#define SING_KEY_LOCAL "local"
#define SING_KEY_TASKS "tasks"
#define SING_KEY_UID "uid"
#define SING_KEY_GID "gid"
#define SING_KEY_RESTARTS "restarts"
#define SING_KEY_KEY "key"	 /* which srun of the job this is; empty for an srun that proxyd has not started */
#define SING_KEY_SCRIPT "script" /* of the batch step only */
#define SING_KEY_CWD "cwd"
#define SING_KEY_WARDEN "warden" /* the files that are installed here; without a shim no library is preloaded */
#define SING_KEY_SHIM "shim"
#define SING_KEY_PLUGIN "plugin"
#define SING_KEY_CONTAINER "container" /* the bundle that Slurm was given with --container */
#define SING_KEY_CONTAINER_PID "container_pid" /* a process that pyxis has put into its container for the task */
#define SING_KEY_GROUPS "groups" /* with either: supplementary groups, with spaces between */
/*
 * And each option that was given: singularity (as it was written), interval (seconds),
 * gpus (MIN-MAX), on_failure (hold, restart), exact (yes, no), outside (reset, relay, refuse),
 * listen (ports, with commas between), exclude (paths, with commas between), lease (a job).
 */

#define SING_STEP_BATCH "batch"

/* Keys of the answer to join. */
#define SING_KEY_MODE "mode"
#define SING_KEY_NAME "name"	 /* of the program in its capsule */
#define SING_KEY_STATUS "status" /* in waitpid's form */
#define SING_KEY_KIT "kit"	 /* where the capsule has warden and shim, of the release with which the job began */
#define SING_KEY_ROOT "root"	 /* the program's root in the capsule; without it, the capsule's own */
#define SING_KEY_ROOT_CWD "root_cwd" /* the program's first folder, seen from that root */
#define SING_KEY_ROOT_SCRIPT "root_script" /* the batch script, seen from that root */
#define SING_KEY_ENV "env."	 /* env.NAME=VALUE: a variable for the program */

/* In a kit. */
#define SING_KIT_WARDEN "sing-warden"
#define SING_KIT_SHIM "libsingshim.so"

#define SING_MODE_FRESH "fresh"
#define SING_MODE_RESTORE "restore"
#define SING_MODE_PLAIN "plain"
#define SING_MODE_FINISHED "finished"

/* Keys of sing-srun's requests. The key of an srun is SING_KEY_KEY: empty in its first request. */
#define SING_KEY_SIGNAL "signal" /* the signal's number */

#endif
