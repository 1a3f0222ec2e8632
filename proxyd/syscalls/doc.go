// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package syscalls lets the system calls in which frozen threads wait go on after a dump, in place
// and after a restore, as if the threads had not been stopped.
//
// # Why
//
// A thread that is frozen leaves the system call that it waits in. The kernel keeps in the thread's
// registers how to go on (include/linux/errno.h, kernel/signal.c):
//
//	ERESTARTSYS, ERESTARTNOINTR,   the call is begun again with the same arguments. CRIU
//	ERESTARTNOHAND                 does that, too
//	ERESTART_RESTARTBLOCK          a call with a relative timeout: the kernel keeps the deadline in
//	                               the thread's restart block, and goes on by restart_syscall.
//	                               CRIU's code in the process overwrites the block, and a
//	                               restored thread has none: CRIU makes the call return EINTR
//	                               (compel/arch/x86/src/lib/infect.c, compel_get_task_regs)
//	EINTR                          a call that the kernel does not continue after a stop
//	                               (signal(7), "Interruption of system calls and library functions
//	                               by stop signals"): epoll_wait, semop, sigtimedwait, and more
//
// # How Rewind works
//
// Before CRIU sees a thread, Rewind sets its registers to the instruction that makes the call, with
// the time that is left as argument. CRIU then dumps and restores a thread that is about to make a
// system call. SetTimeLeft repeats this when the dump is done, for a program that goes on in place.
//
// The deadlines are in the kernel's memory only. A BPF program of type iter/task reads them. Where the kernel has no
// such programs (before 5.8, or without BTF), a call with a deadline returns EINTR as before, except where the deadline
// does not matter or is in the program's memory.
//
// # How a call is made again
//
//	poll                       with the milliseconds that are left
//	nanosleep, clock_nanosleep with the caller's memory for the time left, which has that time;
//	                           without such memory as poll of no files: also poll returns 0 at the
//	                           deadline and EINTR after a signal's handler, and poll's timeout
//	                           needs no memory
//	futex, FUTEX_WAIT_BITSET   as it was: its timeout is a point in time
//	futex, FUTEX_WAIT          returns 0, a spurious wake-up, which futex(2) allows at any time
//	epoll_wait                 with the milliseconds that are left, if Observe has seen the wait
//	semop, sigtimedwait, io_getevents, epoll_wait
//	                           as they were if they have no timeout
//	sockets with a timeout     as they were: the timeout begins anew
//
// If a signal that the thread has a handler for is pending, the call is left alone: plain Linux returns EINTR there
// too.
//
// # Limits
//
//   - Registers with arguments have other values after the call than before. Functions of libc
//     do not promise to keep them. A compiler may keep a variable in a register across a system
//     call that is written inline; such code in a loop sees the shorter timeout again.
//   - epoll_pwait2, semtimedop, sigtimedwait and io_getevents with a timeout return EINTR; so does
//     epoll_wait where a thread was not observed, as after it was thawed and frozen again.
//   - sleeps of more than 24 days without memory for the time left begin anew.
//   - Threads with a seccomp filter are left alone where the number of the call would change.
//   - 32-bit programs are left alone, and architectures other than amd64.
package syscalls
