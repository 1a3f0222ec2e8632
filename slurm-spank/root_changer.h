// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A process of root's that gives a task the root of its container.
 *
 *	task, root           task, user … sing-warden         root changer, root
 *	──────────           ────────────────────────         ──────────────────
 *	starts it ──────────────────────────────────────────► shares root and working directory
 *	                                                      with the task (CLONE_FS)
 *	becomes the user, and executes sing-warden
 *	                     a byte ────────────────────────► chroot, for both
 *	                                                 ◄──  errno as a byte
 *	                     the last copy is closed ───────► ends
 *
 * Only root may call chroot, and the task is the user's by the time when sing-warden has opened the
 * task's files. The user can send the byte, and can even change the working directory in that
 * moment, so that another folder becomes the root. That gives no rights: the task has
 * no_new_privs from before it becomes the user, so no process below it ever has more rights than
 * the user.
 */
#ifndef SING_ROOT_CHANGER_H
#define SING_ROOT_CHANGER_H

/*
 * Set no_new_privs in this process, and start a root changer for the folder root, which is opened
 * now. The process must be root and have a single thread. Returns the socket, which stays open over
 * execve, or -1 with errno.
 */
int root_changer_start(const char *root);

#endif
