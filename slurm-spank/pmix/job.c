// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The attributes of the step that PMIx's library gets, and the environment for PMIx that the task gets. */
#define _GNU_SOURCE
#include "pmix.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INFOS = 32 };

/* A list of attributes that is being made. */
struct infos {
	struct abi_info all[MAX_INFOS];
	size_t n;
};

static struct abi_info *add_info(struct infos *s, const char *key, uint16_t type)
{
	struct abi_info *i = &s->all[s->n++];

	*i = (struct abi_info){ .value.type = type };
	snprintf(i->key, sizeof(i->key), "%s", key);

	return (i);
}

static void add_uint32(struct infos *s, const char *key, int value)
{
	add_info(s, key, ABI_UINT32)->value.data.uint32 = (uint32_t)value;
}

static void add_rank(struct infos *s, const char *key, int value)
{
	add_info(s, key, ABI_RANK)->value.data.rank = (uint32_t)value;
}

static void add_string(struct infos *s, const char *key, const char *value)
{
	add_info(s, key, ABI_STRING)->value.data.string = (char *)value;
}

/* --- waiting for the library --- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	abi_status status;
} step = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void on_done(abi_status status, void *data)
{
	(void)data;
	pthread_mutex_lock(&step.lock);
	step.status = status;
	step.done = true;
	pthread_cond_signal(&step.changed);
	pthread_mutex_unlock(&step.lock);
}

/* Wait for the status of a call of the library to which on_done was passed. */
static abi_status wait_for(abi_status called)
{
	abi_status rv;

	if (called == ABI_OPERATION_SUCCEEDED)
		return (ABI_SUCCESS);
	if (called != ABI_SUCCESS)
		return (called);
	pthread_mutex_lock(&step.lock);
	while (!step.done)
		pthread_cond_wait(&step.changed, &step.lock);
	rv = step.status;
	step.done = false;
	pthread_mutex_unlock(&step.lock);

	return (rv);
}

/* --- the library's server --- */

/*
 * The settings that choose parts of the library. setup_fork puts those that concern the task into the task's
 * environment.
 */
static const struct {
	const char *name, *value;
} choices[] = {
	{ "PMIX_MCA_gds", "hash" }, /* keys in memory, and not in files that server and task share */
	{ "PMIX_MCA_psec", "native" }, /* munge is outside of the job */
};

/* A folder of this task's own: the job has a /tmp of its own, where other users cannot write. */
static int make_folder(const struct task *t, char *folder, size_t size)
{
	struct stat st;

	snprintf(folder, size, "/tmp/.sing-pmix-%s.%d", t->step, t->rank);
	if (mkdir(folder, 0700) && errno != EEXIST)
		return (-1);
	if (lstat(folder, &st))
		return (-1);
	errno = EEXIST;

	return (S_ISDIR(st.st_mode) && st.st_uid == geteuid() ? 0 : -1);
}

static abi_status start_library(const struct task *t, const struct abi_module *upcalls, const char *folder, const char *host)
{
	static struct abi_module module; /* the library may keep the pointer */
	struct infos about = { 0 };
	char name[PMI_NAME_SIZE + 32];

	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); ++i)
		setenv(choices[i].name, choices[i].value, 1);
	snprintf(name, sizeof(name), "sing-pmix-%s.%d", t->step, t->rank);
	add_string(&about, "pmix.srv.nspace", name);
	add_rank(&about, "pmix.srv.rank", 0);
	add_string(&about, "pmix.srvr.tmpdir", folder);
	add_string(&about, "pmix.sys.tmpdir", folder);
	add_string(&about, "pmix.hname", host);
	module = *upcalls;

	return (pmix.PMIx_server_init(&module, about.all, about.n));
}

/* --- the step --- */

/* Add a map of nodes or processes, in the library's form of it. */
static abi_status add_map(struct infos *s, const char *key, char *list, abi_status (*shorten)(const char *, char **))
{
	char *map = NULL;
	abi_status rv = list ? shorten(list, &map) : ABI_ERR_NOMEM;

	free(list);
	if (rv != ABI_SUCCESS)
		return (rv);
	/* map is no string if the library has compressed it. It stays as long as this process: the library refers to it. */

	return (pmix.PMIx_Value_load(&add_info(s, key, ABI_REGEX)->value, map, ABI_REGEX));
}

/* Add the attributes of this task that PMIx's library gets. */
static void describe_task(struct infos *s, const struct task *t, const struct layout *l, const char *folder)
{
	add_rank(s, "pmix.rank", t->rank);
	add_uint32(s, "pmix.appnum", 0);
	add_rank(s, "pmix.apprank", t->rank);
	add_rank(s, "pmix.grank", t->rank);
	add_info(s, "pmix.lrank", ABI_UINT16)->value.data.uint16 = (uint16_t)l->local_rank;
	add_info(s, "pmix.nrank", ABI_UINT16)->value.data.uint16 = (uint16_t)l->local_rank;
	add_uint32(s, "pmix.nodeid", l->node_of[t->rank]);
	add_string(s, "pmix.hname", l->hosts[t->rank]);
	add_string(s, "pmix.pdir", folder);
}

/*
 * Whether the tasks of this node have fewer CPUs than they are. Then MPI libraries yield the CPU while they wait;
 * otherwise a task that waits for a message would keep the CPU for a time slice from the task that is to send the
 * message. The kernel's mask would not tell: srun may bind each task to a CPU of its own.
 */
static bool shares_cpus(int tasks)
{
	const char *text = getenv("SLURM_CPUS_ON_NODE");
	const long cpus = text ? strtol(text, NULL, 10) : 0;

	return (cpus > 0 && cpus < tasks);
}

/* Only this task is a client of this server: each task of the node has a server of its own. */
static abi_status register_step(const struct task *t, const struct layout *l, const char *folder)
{
	struct infos about = { 0 }, mine = { 0 };
	struct abi_array array = { .type = ABI_INFO };
	char *peers = list_peers(l, t->rank);
	abi_status rv = peers ? ABI_SUCCESS : ABI_ERR_NOMEM;

	add_string(&about, "pmix.jobid", t->step);
	add_uint32(&about, "pmix.univ.size", t->size);
	add_uint32(&about, "pmix.job.size", t->size);
	add_uint32(&about, "pmix.max.size", t->size);
	add_uint32(&about, "pmix.app.size", t->size);
	add_uint32(&about, "pmix.job.napps", 1);
	add_uint32(&about, "pmix.num.nodes", l->n_nodes);
	add_uint32(&about, "pmix.local.size", l->local_size);
	add_uint32(&about, "pmix.node.size", l->local_size);
	if (shares_cpus(l->local_size))
		add_info(&about, "pmix.ndosub", ABI_BOOL)->value.data.flag = true;
	add_uint32(&about, "pmix.offset", 0);
	add_rank(&about, "pmix.aldr", 0);
	if (peers) {
		add_rank(&about, "pmix.lldr", atoi(peers));
		add_string(&about, "pmix.lpeers", peers);
	}
	add_string(&about, "pmix.tmpdir", folder);
	add_string(&about, "pmix.nsdir", folder);
	if (rv == ABI_SUCCESS)
		rv = add_map(&about, "pmix.nmap", list_hosts(l), pmix.PMIx_generate_regex);
	if (rv == ABI_SUCCESS)
		rv = add_map(&about, "pmix.pmap", list_ranks(l), pmix.PMIx_generate_ppn);
	describe_task(&mine, t, l, folder);
	array.size = mine.n;
	array.array = mine.all;
	add_info(&about, "pmix.pdata", ABI_DATA_ARRAY)->value.data.array = &array;
	if (rv == ABI_SUCCESS)
		rv = wait_for(pmix.PMIx_server_register_nspace(t->step, 1, about.all, about.n, on_done, NULL));
	free(peers);

	return (rv);
}

/* --- the task --- */

/*
 * Settings of MPI libraries, unless the user has set either variable. By default they share memory between the tasks
 * of a node, or open network cards; neither can be captured. Debian's Open MPI is configured for the loopback
 * interface only; capsules have eth0.
 */
static const struct {
	const char *name, *value, *unless;
} defaults[] = {
	{ "OMPI_MCA_btl", "self,tcp", "OMPI_MCA_btl" },
	{ "OMPI_MCA_pml", "^cm", "OMPI_MCA_pml" },
	{ "OMPI_MCA_coll", "^sm,xhc,acoll", "OMPI_MCA_coll" },
	{ "OMPI_MCA_osc", "^sm", "OMPI_MCA_osc" },
	{ "OMPI_MCA_btl_tcp_if_include", "eth0", "OMPI_MCA_btl_tcp_if_exclude" },
	{ "UCX_TLS", "tcp,self", "UCX_TLS" },
};

static int write_text(const char *text)
{
	size_t n = strlen(text) + 1;

	while (n > 0) {
		const ssize_t written = write(PMIX_ENVIRONMENT_FD, text, n);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return (-1);
		text += written;
		n -= (size_t)written;
	}

	return (0);
}

/* Write the variables that the task's environment needs in addition to its own. */
static int tell_task(char **env)
{
	char text[128];

	for (; env && *env; ++env) {
		if (write_text(*env))
			return (-1);
	}
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); ++i) {
		snprintf(text, sizeof(text), "%s=%s", defaults[i].name, defaults[i].value);
		if (!getenv(defaults[i].name) && !getenv(defaults[i].unless) && write_text(text))
			return (-1);
	}

	return (write_text(""));
}

int begin_job(const struct task *t, const struct layout *l, const struct abi_module *upcalls)
{
	struct abi_proc me = { .rank = (uint32_t)t->rank };
	char folder[PMI_NAME_SIZE + 64];
	char **env = NULL;
	const char *what = "PMIx_server_init";
	abi_status rv;

	if (make_folder(t, folder, sizeof(folder))) {
		fprintf(stderr, "singularity: srun --mpi=pmix: %s: %s\n", folder, strerror(errno));
		return (-1);
	}
	snprintf(me.nspace, sizeof(me.nspace), "%s", t->step);
	rv = start_library(t, upcalls, folder, l->hosts[t->rank]);
	if (rv == ABI_SUCCESS) {
		what = "PMIx_server_register_nspace";
		rv = register_step(t, l, folder);
	}
	if (rv == ABI_SUCCESS) {
		what = "PMIx_server_register_client";
		rv = wait_for(pmix.PMIx_server_register_client(&me, geteuid(), getegid(), NULL, on_done, NULL));
	}
	if (rv == ABI_SUCCESS) {
		what = "PMIx_server_setup_fork";
		rv = pmix.PMIx_server_setup_fork(&me, &env);
	}
	if (rv != ABI_SUCCESS) {
		fprintf(stderr, "singularity: srun --mpi=pmix: %s: %s\n", what, pmix.PMIx_Error_string(rv));
		return (-1);
	}

	return (tell_task(env));
}
