// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package landlock finds processes that have confined themselves by Landlock (landlock(7), Linux 5.13). CRIU does not
// save a thread's Landlock domain: after a restore the process would be free of its own restrictions, so a program with
// such a process is not captured.
//
// # How a domain is seen
//
// No file of /proc shows a domain. In the kernel, a thread's credentials have a blob of memory for all security modules
// (cred->security). In Landlock's part of the blob is a pointer to the domain (struct landlock_cred_security), which is
// null for a thread without a domain. Where that part begins depends on the security modules with which the node has
// booted, and /proc/kallsyms need not have the variable with the place (landlock_blob_sizes). So a thread of this
// process confines itself, and its blob is read before and after: the first word that has changed from null is the
// pointer. Other modules' parts of the blob are copied without a change.
//
// # Where domains cannot be seen
//
// The kernel has Landlock, but no BTF, or BPF programs may not read its memory. A user's process must set no_new_privs
// before it confines itself, and can never clear it again, also for its children. So each process with no_new_privs
// counts as perhaps confined there. Processes that had CAP_SYS_ADMIN need no no_new_privs, and are not found.
package landlock
