// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The hub of a step of MPI (../pmi/pmi.h): a child of this process, which is captured together with this process and ends
 * with it. The hub is started wherever the step may want PMI. proxyd decides whether the step wants PMI: it reads the
 * command line as srun does, and knows the site's default.
 */
#define _GNU_SOURCE
#include "srun.h"

#include "../pmi/pmi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The site's default, where that is pmi2 or PMIx (proxyd/srun/mpi.go has the same name). */
#define DEFAULT_VARIABLE "SINGULARITY_SLURM_MPI_DEFAULT"

static bool names_kind(const char *value, const char *kind)
{
	return (value && strstr(value, kind));
}

/* Whether the user may have asked for a kind of PMI. srun takes "--mpi=pmi2", "--mpi pmi2" and abbreviations. */
static bool may_ask(int argc, char **argv, const char *kind)
{
	for (int i = 1; i < argc; ++i) {
		if (strncmp(argv[i], "--mp", 4) == 0 && (names_kind(argv[i], kind) || (i + 1 < argc && names_kind(argv[i + 1], kind))))
			return (true);
	}

	return (names_kind(getenv("SLURM_MPI_TYPE"), kind));
}

/*
 * Whether sing-pmix can load PMIx's library here. If not, and the user may have asked for PMIx, sing-pmix prints the
 * reason. Without the library the step is not offered PMIx: proxyd refuses a step that asks for PMIx, and other steps
 * run as ever.
 */
static bool can_serve_pmix(bool asked)
{
	int status = -1;
	pid_t pid;

	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, there would be no status */
	pid = fork();
	if (pid == 0) {
		if (!asked)
			close_range(0, UINT_MAX, 0);
		unsetenv("LD_PRELOAD"); /* the shim is for programs of the user */
		execl(SING_PMIX, SING_PMIX, "--check", (char *)NULL);
		fprintf(stderr, "singularity: srun --mpi=pmix: %s: %m\n", SING_PMIX);
		_exit(1);
	}
	if (pid < 0)
		return (false);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;

	return (status == 0);
}

/*
 * Become the hub, in the child, with no descriptor but the hub's: readers of pipes that the child held open would see
 * no end of file.
 */
static _Noreturn void become_hub(int listener, int parent, const struct hub_place *p)
{
	const int low = listener < parent ? listener : parent;
	const int high = listener < parent ? parent : listener;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL); /* signals are for srun */
	setsid();
	prctl(PR_SET_NAME, "sing-pmi-hub");
	if (chdir("/"))
		_exit(1);
	if (low > 0)
		close_range(0, (unsigned int)low - 1, 0);
	if (high > low + 1)
		close_range((unsigned int)low + 1, (unsigned int)high - 1, 0);
	close_range((unsigned int)high + 1, UINT_MAX, 0);
	run_hub(listener, parent, p->secret);
}

static int start_hub(struct hub_place *p)
{
	int life[2] = { -1, -1 };
	int listener = -1;
	pid_t pid;
	int rv = -1;

	if (pipe2(life, O_CLOEXEC))
		goto out;
	listener = listen_for_servers(p);
	if (listener < 0)
		goto out;
	pid = fork();
	if (pid < 0)
		goto out;
	if (pid == 0)
		become_hub(listener, life[0], p);
	/*
	 * The writing end stays open until this process ends: the end of file tells the hub that this process has
	 * ended.
	 */
	life[1] = -1;

	rv = 0;

out:
	for (size_t i = 0; i < 2; ++i) {
		if (life[i] >= 0)
			close(life[i]);
	}
	if (listener >= 0)
		close(listener);

	return (rv);
}

void offer_pmi(int argc, char **argv)
{
	const bool pmi = may_ask(argc, argv, "pmi2") || names_kind(getenv(DEFAULT_VARIABLE), "pmi2");
	const bool asked = may_ask(argc, argv, "pmix");
	const bool pmix = (asked || names_kind(getenv(DEFAULT_VARIABLE), "pmix")) && can_serve_pmix(asked);
	char text[128], address[INET_ADDRSTRLEN];
	struct hub_place p;

	unsetenv(PMI_VARIABLE); /* the variables are of the step in which this process was started */
	unsetenv(PMIX_VARIABLE);
	if (!pmi && !pmix)
		return;
	if (start_hub(&p) || !inet_ntop(AF_INET, &p.address, address, sizeof(address))) {
		/* Without the variable, Slurm serves the step, which then cannot be captured. */
		fprintf(stderr, "singularity: srun: MPI cannot be served within the job: %m\n");
		return;
	}
	snprintf(text, sizeof(text), "%s:%d:%s", address, ntohs(p.port), p.secret);
	if (pmi)
		setenv(PMI_VARIABLE, text, 1);
	if (pmix)
		setenv(PMIX_VARIABLE, text, 1);
}
