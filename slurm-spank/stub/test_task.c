// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- a job that did not ask --- */

static void test_untouched(void)
{
	load(S_CTX_REMOTE, socket_arg, "shim=/lib/shim.so", NULL);
	job_setenv("LD_PRELOAD", "/lib/other.so");
	slurm.step = STEP_OF_BATCH;
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	slurm.step = 0;
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	CHECK(sockets == 0 && slurm.calls == 0 && environment_changes == 0 && !slurm.said[0]);
	CHECK(job_variables() == 1 && slurm.n_prefix == 0);
}

/*
 * slurmd reports bad arguments to the administrator; jobs that did not ask for the plugin do not report them.
 */
static void untouched_by_mistakes(void)
{
	load(S_CTX_REMOTE, "colour=red", NULL);
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	CHECK(sockets == 0 && slurm.calls == 0 && !slurm.said[0]);
}

static void other_steps(void)
{
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	slurm.step = STEP_EXTERN;
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	slurm.step = STEP_INTERACTIVE;
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	CHECK(sockets == 0 && slurm.calls == 0);
}

static void epilog_without_us(void)
{
	load(S_CTX_JOB_SCRIPT, socket_arg, NULL);
	CHECK(epilog() == 0 && sockets == 0);
	give_to_epilog("singularity", "off");
	give_to_epilog("singularity-gpus", "2");
	CHECK(epilog() == 0 && sockets == 0 && !slurm.said[0]);
}

/* --- joining --- */

static const char *asked_value(const struct message *m, const char *key)
{
	const char *value = message_get(m, key);

	return (value ? value : "(none)");
}

static void test_request(void)
{
	static const struct answer plain = ANSWER("ok\0mode=plain");
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	job_setenv("SINGULARITY_SLURM_STEP", "s3");
	job_setenv("SLURM_RESTART_COUNT", "2");
	slurm.step = 7;
	slurm.task = 5;
	slurm.local = 1;
	slurm.tasks = 8;
	if (chdir("/usr"))
		err(1, "/usr");
	CHECK(task_as_root() == 0);
	proxyd_got(&m);
	CHECK(strcmp(message_verb(&m), "join") == 0);
	CHECK(strcmp(message_next(&m, NULL), "version=1") == 0);
	CHECK(strcmp(asked_value(&m, "job"), "812") == 0 && strcmp(asked_value(&m, "step"), "7") == 0);
	CHECK(strcmp(asked_value(&m, "task"), "5") == 0 && strcmp(asked_value(&m, "local"), "1") == 0);
	CHECK(strcmp(asked_value(&m, "tasks"), "8") == 0 && strcmp(asked_value(&m, "cwd"), "/usr") == 0);
	CHECK(strcmp(asked_value(&m, "uid"), "1001") == 0 && strcmp(asked_value(&m, "gid"), "1002") == 0);
	CHECK(strcmp(asked_value(&m, "key"), "s3") == 0 && strcmp(asked_value(&m, "restarts"), "2") == 0);
	CHECK(strcmp(asked_value(&m, "script"), "(none)") == 0 && strcmp(asked_value(&m, "plugin"), "of the tests") == 0);
}

static void request_of_batch(void)
{
	static const struct answer plain = ANSWER("ok\0mode=plain");
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	slurm.step = STEP_OF_BATCH;
	slurm.argc = 2;
	slurm.argv[0] = "/spool/job00812/slurm_script";
	slurm.argv[1] = "x";
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	proxyd_got(&m);
	CHECK(strcmp(asked_value(&m, "step"), "batch") == 0);
	CHECK(strcmp(asked_value(&m, "script"), "/spool/job00812/slurm_script") == 0);
	CHECK(slurm.calls == 0 && slurm.n_prefix == 0); /* the answer was: plain */
}

/* Check the program's arguments behind those that the plugin put before them, and its environment. */
static void has_warden(const char *options)
{
	char text[512] = "";

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
	for (int i = 0; i < slurm.n_prefix; ++i)
		strcat(strcat(text, i ? " " : ""), slurm.prefix[i]);
	strcat(text, "|");
	for (int i = 0; i < slurm.argc; ++i)
		strcat(strcat(text, i ? " " : ""), slurm.argv[i]);
	CHECK(!job_getenv("SINGULARITY_SLURM_WARDEN"));
#else
	snprintf(text, sizeof(text), "%s %s --|%s %s", slurm.argv[0], job_getenv("SINGULARITY_SLURM_WARDEN"),
		 job_getenv("SINGULARITY_SLURM_ARGV0"), slurm.argv[1]);
#endif
	if (strcmp(text, options))
		errx(1, "the task is %s, want %s", text, options);
}

static void need_root(void)
{
	if (geteuid())
		skip("needs root: it makes namespaces");
}

static void in_capsule(void)
{
	char host[64], cwd[64], link[64];
	struct stat proc, now;
	int status = -1;
	pid_t pid;

	CHECK(gethostname(host, sizeof(host)) == 0 && strcmp(host, "in-capsule") == 0);
	CHECK(strcmp(getcwd(cwd, sizeof(cwd)), "/usr") == 0);
	CHECK(fstat(700, &proc) == 0 && stat("/proc", &now) == 0);
	CHECK(!(fcntl(700, F_GETFD) & FD_CLOEXEC));
	CHECK(readlinkat(700, "self", link, sizeof(link)) > 0);
	/*
	 * Children of the task are in the capsule's PID namespace, which has had few processes, so that their
	 * PIDs are small.
	 */
	pid = fork();
	if (pid == 0)
		_exit(getpid() < 10 ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void join_as(const struct answer *answer, int step, const char *options)
{
	need_root();
	proxyd_start(answer, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", "shim=/lib/shim.so", NULL);
	give("singularity", NULL);
	job_setenv("SINGULARITY_SLURM_STEP", "s3");
	slurm.step = step;
	slurm.argc = 2;
	slurm.argv[0] = "prog";
	slurm.argv[1] = "arg";
	if (chdir("/usr"))
		err(1, "/usr");
	CHECK(task_as_root() == 0);
	in_capsule();
	CHECK(task_as_user() == 0);
	has_warden(options);
	CHECK(!job_getenv("SINGULARITY_SLURM_STEP"));
}

static void fresh_step(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.5\0kit=/run/kit\0env.SINGULARITY_SLURM_FILES=/run/x=y\0later=?", NAMESPACES);

	job_setenv("LD_PRELOAD", "/lib/a.so:/lib/b.so");
	join_as(&a, 0, "/run/kit/sing-warden --name=s3.5 --proc-fd=700 --all --|prog arg");
	CHECK(strcmp(job_getenv("SINGULARITY_SLURM_FILES"), "/run/x=y") == 0);
	CHECK(strcmp(job_getenv("LD_PRELOAD"), "/lib/a.so:/lib/b.so:/run/kit/libsingshim.so") == 0);
}

static void fresh_batch(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=batch\0kit=/run/kit", NAMESPACES);

	join_as(&a, STEP_OF_BATCH, "/run/kit/sing-warden --name=batch --proc-fd=700 --|prog arg");
	CHECK(strcmp(job_getenv("LD_PRELOAD"), "/run/kit/libsingshim.so") == 0);
}

static void fresh_with_devices(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.5\0kit=/run/kit/devices\0env.LD_LIBRARY_PATH=/run/kit/devices", NAMESPACES);

	job_setenv("LD_LIBRARY_PATH", "/opt/lib:/run/kit/devices2");
	join_as(&a, 0, "/run/kit/devices/sing-warden --name=s3.5 --proc-fd=700 --all --|prog arg");
	CHECK(strcmp(job_getenv("LD_LIBRARY_PATH"), "/run/kit/devices:/opt/lib:/run/kit/devices2") == 0);
	CHECK(strcmp(job_getenv("LD_PRELOAD"), "/run/kit/devices/libsingshim.so") == 0);
}

static void devices_from_0(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.5\0kit=/run/kit/devices\0env.SINGULARITY_SLURM_DEVICE_NAMES=2,3", NAMESPACES);

	job_setenv("CUDA_VISIBLE_DEVICES", "3");
	join_as(&a, 0, "/run/kit/devices/sing-warden --name=s3.5 --proc-fd=700 --all --|prog arg");
	CHECK(strcmp(job_getenv("CUDA_VISIBLE_DEVICES"), "1") == 0);
	CHECK(strcmp(job_getenv("SINGULARITY_SLURM_DEVICE_NAMES"), "0,1") == 0);
}

/* A job's own choice of the library for matrix products counts more than the site's. */
static void own_products(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.5\0kit=/run/kit/devices\0env.SINGULARITY_SLURM_BLAS=vendor", NAMESPACES);

	job_setenv("SINGULARITY_SLURM_BLAS", "native");
	join_as(&a, 0, "/run/kit/devices/sing-warden --name=s3.5 --proc-fd=700 --all --|prog arg");
	CHECK(strcmp(job_getenv("SINGULARITY_SLURM_BLAS"), "native") == 0);
}

/* Without such a choice the site's counts. */
static void products_of_site(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=s3.5\0kit=/run/kit/devices\0env.SINGULARITY_SLURM_BLAS=native", NAMESPACES);

	join_as(&a, 0, "/run/kit/devices/sing-warden --name=s3.5 --proc-fd=700 --all --|prog arg");
	CHECK(strcmp(job_getenv("SINGULARITY_SLURM_BLAS"), "native") == 0);
}

static void restored_step(void)
{
	static const struct answer a = ANSWER("ok\0mode=restore\0name=s3.5\0kit=/run/kit", NAMESPACES);

	job_setenv("LD_PRELOAD", "/run/kit/libsingshim.so /lib/a.so");
	join_as(&a, 3, "/run/kit/sing-warden --name=s3.5 --proc-fd=700 --all --restore --|prog arg");
	CHECK(strcmp(job_getenv("LD_PRELOAD"), "/run/kit/libsingshim.so /lib/a.so") == 0); /* not added twice */
}

/* --- a container --- */

static void request_with_container(void)
{
	static const struct answer plain = ANSWER("ok\0mode=plain");
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	job_setenv("SLURM_CONTAINER", "/home/alice/bundle");
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	proxyd_got(&m);
	CHECK(strcmp(asked_value(&m, "container"), "/home/alice/bundle") == 0);
	CHECK(strcmp(asked_value(&m, "groups"), "1002 2000 ") == 0);
	CHECK(slurm.calls == 0 && slurm.n_prefix == 0); /* Slurm's own runtime starts the container */
}

/* Read all output of a program. */
static void read_all(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t n;

	while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
}

/*
 * The program that takes the warden's place asks for the root, as the warden does. /usr is the
 * container's root here, so the folder /usr/bin becomes /bin.
 */
static void task_in_container(void)
{
	static const struct answer a = ANSWER("ok\0mode=fresh\0name=batch\0root=/usr\0root_cwd=/lib\0root_script=/startup", NAMESPACES);
	const char *script = "#!/bin/bash\n"
			     "grep NoNewPrivs /proc/self/status; echo \"$@ nofile=$(ulimit -n) $SLURM_RLIMIT_NOFILE$LD_PRELOAD\"\n"
			     "test -d /usr/bin && printf x >&701; read -r -t 9 -u 701; test -d /usr/bin || echo entered\n";
	char path[] = "/tmp/sing-fake-warden-XXXXXX", arg[64], said[1024];
	const int fd = mkstemp(path);
	int out[2], status;
	pid_t pid;

	need_root();
	if (fd < 0 || write(fd, script, strlen(script)) < 0 || fchmod(fd, 0755) || close(fd))
		err(1, "%s", path);
	snprintf(arg, sizeof(arg), "warden=%s", path);
	proxyd_start(&a, 1);
	if (pipe(out)) /* after proxyd was started, which would otherwise inherit the other end */
		err(1, "pipe");
	load(S_CTX_REMOTE, socket_arg, arg, "shim=/lib/shim.so", NULL);
	give("singularity", NULL);
	job_setenv("SLURM_CONTAINER", "/home/alice/bundle");
	job_setenv("LD_PRELOAD", "/lib/shim.so");
	job_setenv("SLURM_RLIMIT_NOFILE", "77");
	slurm.step = STEP_OF_BATCH;
	slurm.argc = 2;
	slurm.argv[0] = "/spool/slurm_script";
	slurm.argv[1] = "arg";
	pid = fork();
	if (pid == 0) {
		task_as_root();
		dup2(out[1], 1);
		task_as_user();
		_exit(99);
	}
	close(out[1]);
	read_all(out[0], said, sizeof(said));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	unlink(path);
	CONTAINS(said, "NoNewPrivs:\t1");
	CONTAINS(said, "--name=batch --proc-fd=700 --root-fd=701 --root-cwd=/lib -- /startup arg nofile=77 \nentered");
}

/* --- the end --- */

static void job_over(void)
{
	static const struct answer answers[] = { ANSWER("ok"), ANSWER("no\0reason=a mount is busy") };
	static struct message m;

	proxyd_start(answers, COUNT(answers));
	load(S_CTX_JOB_SCRIPT, socket_arg, "retry=0", NULL);
	give_to_epilog("singularity-gpus", "2");
	CHECK(epilog() == 0 && !slurm.said[0]);
	proxyd_got(&m);
	CHECK(strcmp(message_verb(&m), "end") == 0 && strcmp(message_next(&m, NULL), "version=1") == 0);
	CHECK(strcmp(asked_value(&m, "job"), "812") == 0 && strcmp(asked_value(&m, "uid"), "1001") == 0);
	CHECK(epilog() == 0);
	CONTAINS(slurm.said, "singularity: job 812: what is left of it here cannot be removed: a mount is busy");
	slurm.said[0] = '\0';
	proxyd_got(&m);
	unlink(socket_path);
	CHECK(epilog() == 0); /* never an error: an error would drain the node */
	CONTAINS(slurm.said, "singularity: job 812: what is left of it here cannot be removed now: proxyd is not there");
}

const struct test task_tests[] = {
	{ "task untouched", test_untouched },
	{ "task untouched by mistakes in plugstack.conf", untouched_by_mistakes },
	{ "task of other steps untouched", other_steps },
	{ "epilog without us", epilog_without_us },
	{ "join of a step", test_request },
	{ "join of the batch step", request_of_batch },
	{ "fresh step", fresh_step },
	{ "fresh batch step", fresh_batch },
	{ "fresh step with devices", fresh_with_devices }, { "devices from 0", devices_from_0 },
	{ "own products", own_products }, { "products of the site", products_of_site },
	{ "restored step", restored_step },
	{ "join with a container", request_with_container },
	{ "task in a container", task_in_container },
	{ "job over", job_over },
	{ NULL, NULL },
};
