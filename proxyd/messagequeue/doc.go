// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package messagequeue captures the POSIX message queues of an IPC namespace, which CRIU does not know, and makes
// them again.
//
// The kernel shows a message only to the process that takes the message out of its queue. So Capture takes all messages
// out and puts them back in the same order. No message is lost if the program cannot outlive the process that calls
// Capture: the capsule's init calls it, and the kernel kills the capsule's programs when init dies. No process but
// the caller may use the queues meanwhile: the programs are frozen. A frozen thread waits in no system call, so no thread
// is woken by a message, and no sender's message comes in between (ipc/mqueue.c, wq_sleep).
//
// A message that is put back stands behind the messages of the same priority, and before those of a lower priority.
// The queue is empty when the first is put back, so the order is the order in which the messages were taken.
package messagequeue
