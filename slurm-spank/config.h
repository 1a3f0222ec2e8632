// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The plugin's arguments in plugstack.conf. */
#ifndef SING_CONFIG_H
#define SING_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <sys/un.h>

struct config {
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char warden[PATH_MAX];
	char shim[PATH_MAX];  /* "" if no shim is installed */
	bool run_unprotected; /* if proxyd does not run, or has another version */
	int retry;	      /* seconds for which requests to a proxyd that does not answer are repeated */
	char wrong[256];      /* the error in the arguments, "" if they are right */
};

/*
 * Fill c. A wrong argument is described in c->wrong, and has no other effect: it matters only to
 * jobs that want the plugin, so their hooks report it.
 */
void config_read(struct config *c, int argc, char **argv);

#endif
