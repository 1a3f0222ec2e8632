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
	char shim[PATH_MAX];  /* "" for none */
	bool run_unprotected; /* where proxyd is not there, or speaks another version */
	int retry;	      /* seconds to go on asking a proxyd that does not answer */
	char wrong[256];      /* what is wrong with the arguments, "" for nothing */
};

/*
 * Fill c. A wrong argument is reported in c->wrong and changes nothing else: only jobs that
 * want the plugin are concerned, so their hooks report the argument.
 */
void config_read(struct config *c, int argc, char **argv);

#endif
