// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The messages between a warden and the first process of its capsule. The other end is
 * proxyd/capsule/message.go; a test of that package reads this file.
 *
 * The socket is SOCK_SEQPACKET, abstract, named SING_SOCKET in the capsule's network
 * namespace. A message is a packet of exactly sizeof(struct sing_message) bytes.
 *
 *	warden                                       init
 *	──────                                       ────
 *	START name, first, pidfd of the steward,
 *	pidfd of itself ───────────────────────────► checks that the steward is init's child, and
 *	                                             puts it into a cgroup below the warden's
 *	                                        ◄──  GO | REFUSED errno
 *	lets the program go
 *	SIGNAL number ─────────────────────────────► sends it to all of the program's processes
 *	                                        ◄──  STATUS, as waitpid gives it, when the
 *	                                             cgroup is gone
 *	exits likewise
 *
 *	                                        ◄──  INPUT 1: take all standard input that comes;
 *	                                             INPUT 0: no more than the program's pipe
 *	                                             has room for. An older warden ignores both
 *	of a program that is being captured:    ◄──  CAPTURED: it has ended; the warden stays
 *	                                        ◄──  STATUS, when proxyd releases the warden
 *	of a program that is restored:
 *	RESTORE name, fds 0 1 2, pidfd of itself ──► keeps them for the daemon that restores
 *	                                        ◄──  GO, pidfd of the steward
 *
 *	closes before STATUS ──────────────────────► kills the program, unless it is captured
 */
#ifndef SING_WARDEN_MESSAGE_H
#define SING_WARDEN_MESSAGE_H

#include <stdint.h>

#define SING_SOCKET "singularity-slurm" /* after a NUL byte */

enum { SING_VERSION = 1 };

enum sing_kind {
	SING_START = 1,
	SING_RESTORE = 2,
	SING_SIGNAL = 3,

	SING_GO = 16,
	SING_STATUS = 17,
	SING_CAPTURED = 18,
	SING_REFUSED = 19,
	SING_INPUT = 20,
};

enum { SING_NAME_SIZE = 48 };

struct sing_message {
	uint32_t version;
	uint32_t kind;
	int32_t value; /* SIGNAL: its number; STATUS: the status; REFUSED: errno; INPUT; else 0 */
	int32_t first; /* START: PID of the program itself, in the capsule; else 0 */
	char name[SING_NAME_SIZE]; /* START, RESTORE: the program's name, padded with NULs, at least one */
};

_Static_assert(sizeof(struct sing_message) == 64, "both ends count on it");

#endif
