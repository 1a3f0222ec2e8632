// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A SPANK plugin that stands in for NVIDIA's pyxis with enroot: it is named pyxis, has some of its
 * options, and puts the task's process into the same namespaces, in the same hook and order. An image is a
 * folder, which is copied to a folder of the node's /tmp for the step, and removed with the step, as enroot unpacks an
 * image for pyxis.
 *
 *	srun --container-image=FOLDER [--container-mounts=SOURCE:TARGET[:ro],…] [--container-workdir=FOLDER]
 *	     [--container-writable] [--container-unshare=uts]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

static char *image, *mounts, *workdir;
static int writable, unshare_uts;
static char copy[PATH_MAX]; /* of the image, for this step */

static int take_value(char **into, const char *value)
{
	free(*into);
	*into = strdup(value);

	return (*into ? 0 : -1);
}

static int take_image(int value, const char *arg, int remote)
{
	(void)value, (void)remote;
	return (take_value(&image, arg));
}

static int take_mounts(int value, const char *arg, int remote)
{
	(void)value, (void)remote;
	return (take_value(&mounts, arg));
}

static int take_workdir(int value, const char *arg, int remote)
{
	(void)value, (void)remote;
	return (take_value(&workdir, arg));
}

static int take_writable(int value, const char *arg, int remote)
{
	(void)value, (void)arg, (void)remote;
	writable = 1;
	return (0);
}

static int take_unshare(int value, const char *arg, int remote)
{
	(void)value, (void)arg, (void)remote;
	unshare_uts = 1;
	return (0);
}

static struct spank_option options[] = {
	{ "container-image", "FOLDER", "the container's files", 1, 0, take_image },
	{ "container-mounts", "LIST", "mounts", 1, 0, take_mounts },
	{ "container-workdir", "FOLDER", "working directory", 1, 0, take_workdir },
	{ "container-writable", NULL, "the root can be written", 0, 0, take_writable },
	{ "container-unshare", "uts", "more namespaces", 1, 0, take_unshare },
	SPANK_OPTIONS_TABLE_END,
};

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	(void)argc, (void)argv;
	for (struct spank_option *o = options; o->name; ++o)
		spank_option_register(sp, o);

	return (0);
}

static int log_failure(const char *what)
{
	slurm_error("pyxis: %s: %s", what, strerror(errno));

	return (-1);
}

/* Run a command, as this process' user or as uid, and wait for it. */
static int run_as(uid_t uid, gid_t gid, char *const argv[])
{
	int status;
	const pid_t pid = fork();

	if (pid == 0) {
		if (getuid() == 0 && (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)))
			_exit(1);
		execvp(argv[0], argv);
		_exit(1);
	}

	return (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1);
}

static int name_copy(spank_t sp)
{
	uid_t uid = 0;
	uint32_t job = 0, step = 0;

	spank_get_item(sp, S_JOB_ID, &job);
	spank_get_item(sp, S_JOB_STEPID, &step);
	if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS)
		return (-1);
	snprintf(copy, sizeof(copy), "/tmp/unpacked-%u/pyxis_%u.%u", uid, job, step);

	return (0);
}

int slurm_spank_user_init(spank_t sp, int argc, char **argv)
{
	(void)argc, (void)argv;
	if (!image)
		return (0);
	if (name_copy(sp))
		return (log_failure("name"));

	return (0);
}

/* The first task copies the image; the others wait for it. */
static int unpack_image(void)
{
	char parent[PATH_MAX], lock[PATH_MAX + 8];
	int fd, rv = 0;

	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(copy, '/') - copy), copy);
	snprintf(lock, sizeof(lock), "%s.lock", copy);
	if (run_as(0, 0, (char *[]){ "mkdir", "-p", parent, NULL }))
		return (log_failure(parent));
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || lockf(fd, F_LOCK, 0))
		return (log_failure(lock));
	if (access(copy, F_OK))
		rv = run_as(0, 0, (char *[]){ "cp", "-a", image, copy, NULL });
	close(fd);

	return (rv ? log_failure("cp") : 0);
}

/* --- the helper, which becomes the container's first process, and stops --- */

static int write_text(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	const int ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);

	return (ok ? 0 : -1);
}

static int make_namespaces(uid_t uid, gid_t gid)
{
	char map[64];

	/* As after execve: the files of /proc are the user's. */
	if (prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER))
		return (-1);
	snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	if (write_text("/proc/self/setgroups", "deny") || write_text("/proc/self/uid_map", map))
		return (-1);
	snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	if (write_text("/proc/self/gid_map", map) || unshare(CLONE_NEWNS | CLONE_NEWCGROUP))
		return (-1);

	return (unshare_uts ? unshare(CLONE_NEWUTS) : 0);
}

/* Mount below the copy, and make the target if it is missing. */
static int mount_in(const char *source, const char *target, const char *kind, unsigned long flags)
{
	char path[PATH_MAX * 2];
	struct stat st;

	snprintf(path, sizeof(path), "%s%s", copy, target);
	if (kind || (stat(source, &st) == 0 && S_ISDIR(st.st_mode))) {
		mkdir(path, 0755);
	} else {
		const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (fd >= 0)
			close(fd);
	}
	if (mount(source, path, kind, kind ? flags : MS_BIND | MS_REC, kind ? "mode=755" : NULL))
		return (log_failure(target));
	if (!kind && (flags & MS_RDONLY) && mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL))
		return (log_failure(target));

	return (0);
}

static int mount_all(void)
{
	char *rest = NULL;
	int rv = 0;

	if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) || mount(copy, copy, NULL, MS_BIND, NULL))
		return (-1);
	rv |= mount_in("/proc", "/proc", NULL, 0);
	rv |= mount_in("/sys", "/sys", NULL, 0);
	rv |= mount_in("/dev", "/dev", NULL, 0);
	rv |= mount_in("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV);
	rv |= mount_in("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV);
	rv |= mount_in("/etc/hosts", "/etc/hosts", NULL, MS_RDONLY | MS_NOSUID | MS_NODEV);
	for (char *m = mounts ? strtok_r(mounts, ",", &rest) : NULL; m && !rv; m = strtok_r(NULL, ",", &rest)) {
		char *target = strchr(m, ':');
		char *how = target ? strchr(target + 1, ':') : NULL;

		if (!target)
			return (-1);
		*target++ = '\0';
		if (how)
			*how++ = '\0';
		rv = mount_in(m, target, NULL, how ? MS_RDONLY : 0);
	}

	return (rv);
}

static int change_root(void)
{
	const unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | (writable ? 0 : MS_RDONLY);

	if (mount(NULL, copy, NULL, flags, NULL) || chdir(copy) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH))
		return (-1);

	return (chdir("/"));
}

static _Noreturn void become_container(uid_t uid, gid_t gid)
{
	if (make_namespaces(uid, gid) || mount_all() || change_root()) {
		log_failure("the container cannot be made");
		_exit(1);
	}
	raise(SIGSTOP);
	_exit(0);
}

/* --- the task's process --- */

static int join_namespace(pid_t pid, const char *kind, int type)
{
	char path[64];
	int fd, rv;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return (log_failure("unable to open a namespace file"));
	rv = setns(fd, type);
	close(fd);

	return (rv ? log_failure(kind) : 0);
}

/* A filter by which chown returns 0, as pyxis has it for package managers. */
static int set_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchownat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) ? log_failure("seccomp") : 0);
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
	int status;
	pid_t pid;

	(void)argc, (void)argv;
	if (!image)
		return (0);
	if (unpack_image())
		return (-1);
	pid = fork();
	if (pid == 0)
		become_container(getuid(), getgid());
	if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return (log_failure("container start failed"));
	spank_setenv(sp, "OF_IMAGE", "yes", 1);
	spank_unsetenv(sp, "LANG");
	if (join_namespace(pid, "user", CLONE_NEWUSER) || join_namespace(pid, "cgroup", CLONE_NEWCGROUP) ||
	    join_namespace(pid, "mnt", CLONE_NEWNS) || (unshare_uts && join_namespace(pid, "uts", CLONE_NEWUTS)))
		return (-1);
	if (chdir(workdir ? workdir : "/"))
		return (log_failure("chdir"));
	if (set_filter())
		return (-1);
	kill(pid, SIGCONT);

	return (0);
}

int slurm_spank_exit(spank_t sp, int argc, char **argv)
{
	uid_t uid = 0;
	gid_t gid = 0;

	(void)argc, (void)argv;
	if (!copy[0] || spank_context() != S_CTX_REMOTE || spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS)
		return (0);

	return (run_as(uid, gid, (char *[]){ "rm", "-rf", copy, NULL }));
}
