// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Tasks that pyxis puts into a container: here a mount namespace of their own between the two hooks. */
#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOTE "SLURM_SINGULARITY_PYXIS"

static char warden[] = "/tmp/sing-fake-warden-XXXXXX";

static void make_warden(const char *script)
{
	const int fd = mkstemp(warden);

	if (fd < 0 || write(fd, script, strlen(script)) < 0 || fchmod(fd, 0755) || close(fd))
		err(1, "%s", warden);
}

static char cgroup[128]; /* into which Slurm puts the task between the hooks; "": none */

static void enter_cgroup(void)
{
	char procs[160];
	int fd;

	if (!cgroup[0])
		return;
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", cgroup);
	fd = open(procs, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		err(1, "%s", procs);
	close(fd);
}

/* What pyxis does to a task between this plugin's hooks. */
static void enter_namespaces(int more)
{
	if (unshare(CLONE_NEWNS | more))
		err(1, "unshare");
	job_setenv("OF_IMAGE", "yes");
}

/* Run a task with its output in said. Returns its status; *pid is its process. */
static int run_task(bool contained, int more, char *said, size_t size, pid_t *pid)
{
	char arg[64];
	size_t used = 0;
	ssize_t n;
	int out[2], status;

	snprintf(arg, sizeof(arg), "warden=%s", warden);
	if (pipe(out))
		err(1, "pipe");
	load(S_CTX_REMOTE, socket_arg, arg, NULL);
	give("singularity", NULL);
	job_setenv(NOTE, "yes");
	job_setenv("LANG", "C");
	slurm.argc = 1;
	slurm.argv[0] = "prog";
	*pid = fork();
	if (*pid == 0) {
		task_as_root();
		dup2(out[1], 1);
		dup2(out[1], 2);
		close(out[1]);
		enter_cgroup();
		if (contained)
			enter_namespaces(more);
		task_as_user();
		printf("%s goes on by itself\n", slurm.argv[0]);
		fflush(stdout);
		_exit(99);
	}
	close(out[1]);
	while (used < size - 1 && (n = read(out[0], said + used, size - 1 - used)) > 0)
		used += (size_t)n;
	said[used] = '\0';
	close(out[0]);
	CHECK(waitpid(*pid, &status, 0) == *pid);
	unlink(warden);

	return (status);
}

/* The successor becomes the warden, as the user, with the environment of pyxis, and the task ends as the warden ends. */
static void task_of_pyxis(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.0\0root=/usr\0root_cwd=/lib\0env.A=b", NAMESPACES);
	static struct message m;
	char said[4096], want[64];
	pid_t pid;
	int status;

	if (geteuid() != 0)
		skip("needs root");
	make_warden("#!/bin/bash\necho \"$@ $OF_IMAGE$A $SLURM_SINGULARITY_PYXIS $(id -u) $(id -G)\"\n"
		    "grep NoNewPrivs /proc/self/status; test $(ps -o pgid= $$) = $(ps -o pgid= $PPID) && echo grouped; kill -TERM $$\n");
	proxyd_start(&a, 1);
	status = run_task(true, 0, said, sizeof(said), &pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	CONTAINS(said, "--name=s3.0 --proc-fd=700 --all --root-fd=701 --root-cwd=/lib -- prog yesb  1001 1002 2000\n");
	CONTAINS(said, "NoNewPrivs:\t1\ngrouped\n");
	proxyd_got(&m);
	snprintf(want, sizeof(want), "%d", (int)pid);
	CHECK(strcmp(message_get(&m, "container_pid"), want) == 0 && strcmp(message_get(&m, "groups"), "1002 2000 ") == 0);
}

/* The successor is in the cgroup into which Slurm has put the task after the fork, or the task's limits would not hold. */
static void cgroup_of_pyxis(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.0", NAMESPACES);
	static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids" };
	char said[4096];
	pid_t pid;
	bool tried = false;

	if (geteuid() != 0)
		skip("needs root");
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); ++i) {
		char want[64];

		snprintf(cgroup, sizeof(cgroup), "%s/cgroup.procs", roots[i]);
		if (access(cgroup, W_OK))
			continue;
		snprintf(want, sizeof(want), ":/sing-stub-%d\n", (int)getpid());
		snprintf(cgroup, sizeof(cgroup), "%s/sing-stub-%d", roots[i], (int)getpid());
		if (mkdir(cgroup, 0755))
			continue;
		tried = true;
		strcpy(strrchr(warden, '-'), "-XXXXXX");
		make_warden("#!/bin/sh\ncat /proc/self/cgroup\n");
		proxyd_start(&a, 1);
		CHECK(run_task(true, 0, said, sizeof(said), &pid) == 0);
		rmdir(cgroup);
		CONTAINS(said, want);
		break;
	}
	if (!tried)
		skip("no cgroup can be made here");
}

/* The task's process keeps none of the task's descriptors open: else srun would see no end of the output. */
static void descriptors_of_pyxis(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.0", NAMESPACES);
	char fifo[64], script[256], arg[64], byte;
	int out[2], status, to;
	pid_t pid;

	if (geteuid() != 0)
		skip("needs root");
	snprintf(fifo, sizeof(fifo), "/tmp/sing-fifo-%d", (int)getpid());
	if (mkfifo(fifo, 0600) || chown(fifo, 1001, 1002))
		err(1, "%s", fifo);
	snprintf(script, sizeof(script), "#!/bin/bash\nexec 1>&- 2>&-; read < %s; exit 4\n", fifo);
	make_warden(script);
	proxyd_start(&a, 1);
	if (pipe2(out, O_CLOEXEC)) /* after proxyd was started, which would otherwise inherit the other end */
		err(1, "pipe");
	snprintf(arg, sizeof(arg), "warden=%s", warden);
	load(S_CTX_REMOTE, socket_arg, arg, NULL);
	give("singularity", NULL);
	job_setenv(NOTE, "yes");
	slurm.argc = 1;
	slurm.argv[0] = "prog";
	pid = fork();
	if (pid == 0) {
		task_as_root();
		dup2(out[1], 1);
		dup2(out[1], 2);
		close(out[0]);
		enter_namespaces(0);
		task_as_user(); /* out[1] is still open, as slurmstepd's ends of pipes are */
		_exit(99);
	}
	close(out[1]);
	CHECK(read(out[0], &byte, 1) == 0);
	CHECK(waitpid(pid, &status, WNOHANG) == 0);
	to = open(fifo, O_WRONLY);
	CHECK(to >= 0 && write(to, "\n", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 4);
	unlink(fifo);
	unlink(warden);
}

/* A task that is not protected goes on in its container by itself. */
static void unprotected_task_of_pyxis(void)
{
	static const struct answer a = ANSWER("ok\0mode=plain\0reason=a reason");
	char said[4096];
	pid_t pid;
	int status;

	if (geteuid() != 0)
		skip("needs root");
	proxyd_start(&a, 1);
	make_warden("#!/bin/sh\n");
	status = run_task(true, 0, said, sizeof(said), &pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 99);
	CONTAINS(said, "singularity: this job runs unprotected: a reason\nprog goes on by itself\n");
}

/* A task never loses its container, nor a namespace that its user asked for. */
static void refused_task_of_pyxis(void)
{
	char said[4096];
	pid_t pid;
	int status;

	if (geteuid() != 0)
		skip("needs root");
	make_warden("#!/bin/sh\n");
	status = run_task(false, 0, said, sizeof(said), &pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 125);
	CONTAINS(said, "singularity: pyxis has not put this task into a container: its line in plugstack.conf");
	strcpy(strrchr(warden, '-'), "-XXXXXX");
	make_warden("#!/bin/sh\n");
	status = run_task(true, CLONE_NEWUTS, said, sizeof(said), &pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 125);
	CONTAINS(said, "singularity: --container-unshare");
}

/* srun and sbatch note that pyxis has a container; a step of such a script that has none removes the note. */
static void note_of_options(void)
{
	load(S_CTX_LOCAL, NULL);
	give("singularity", NULL);
	setenv("_SLURM_SPANK_OPTION_pyxis_container_name", "name", 1);
	CHECK(post_opt() == 0 && getenv(NOTE) && strcmp(getenv(NOTE), "yes") == 0);
	unsetenv("_SLURM_SPANK_OPTION_pyxis_container_name");
	CHECK(post_opt() == 0 && !getenv(NOTE));
}

const struct test pyxis_tests[] = {
	{ "task of pyxis", task_of_pyxis },
	{ "cgroup of a task of pyxis", cgroup_of_pyxis },
	{ "descriptors of a task of pyxis", descriptors_of_pyxis },
	{ "unprotected task of pyxis", unprotected_task_of_pyxis },
	{ "refused task of pyxis", refused_task_of_pyxis },
	{ "note of pyxis' options", note_of_options },
	{ NULL, NULL },
};
