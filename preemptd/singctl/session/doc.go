// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package session keeps a program on a terminal within a protected job. Users attach to the terminal
// and detach from the terminal, and the program goes on when the job is requeued or moved.
//
//	login node                    node of the job, outside of the capsule    capsule
//	──────────                    ───────────────────────────────────────    ───────
//	singctl session attach
//	  └─ srun --overlap --pty ──► singctl session join ──── TCP ───────────► singctl session serve
//	                              Join                      token, frames    Serve ── terminal ── shell
//
// Slurm brings the user to the node, by the same rights and ports as any srun, and no daemon of root's
// is involved. On the node the capsule's address can be reached by every user, so Serve wants a
// token, which is in a file that only the job's user can read (Record).
//
// Serve and the shell are captured with the job. Their connection leads to outside of the
// job: a checkpoint in place does not disturb the connection, a restore resets it, and attach connects
// again.
//
// # The connection
//
//	join                                         serve
//	────                                         ─────
//	token in hexadecimal, and a line's end ────► compares in constant time, or closes
//	                                        ◄──  the terminal's last output, up to 64 KiB
//	frame: kind, length (2 bytes), bytes ──────►
//	  data: keys that were typed
//	  size: rows, columns (2 bytes each)
//	                                        ◄──  the terminal's output
package session
