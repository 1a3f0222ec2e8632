// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * libsingshim-criu.so is loaded into criu while criu restores a program with System V objects as the job's user. criu
 * writes the limits of the new IPC namespace, which the kernel lets only uid 0 write (ipc/ipc_sysctl.c,
 * ipc_permissions), and ends the restore if it cannot. The new namespace has the limits that the old one had, the
 * kernel's, for no user can change them. So these writes go to /dev/null, and criu need not be root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Below /proc/sys, as criu names them (criu/ipc_ns.c). The numbers of new objects, *_next_id, are no limits: criu can
 * write these with CAP_CHECKPOINT_RESTORE. */
static const char *const limits[] = {
	"kernel/sem", "kernel/msgmax", "kernel/msgmnb", "kernel/msgmni", "kernel/auto_msgmni", "kernel/shmmax",
	"kernel/shmall", "kernel/shmmni", "kernel/shm_rmid_forced", "fs/mqueue/queues_max", "fs/mqueue/msg_max",
	"fs/mqueue/msgsize_max", "fs/mqueue/msg_default", "fs/mqueue/msgsize_default",
};

static bool is_limit(const char *path)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (strcmp(path, limits[i]) == 0)
			return (true);

	return (false);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	int fd = (int)syscall(SYS_openat, dir, path, flags, mode);

	if (fd < 0 && errno == EACCES && (flags & O_ACCMODE) == O_WRONLY && is_limit(path))
		fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY | (flags & O_CLOEXEC));

	return (fd);
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
	va_end(more);

	return (open_at(dir, path, flags, mode));
}

int openat64(int dir, const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
	va_end(more);

	return (open_at(dir, path, flags | O_LARGEFILE, mode));
}
