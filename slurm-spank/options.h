// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The options by which the user asks for protection. */
#ifndef SING_OPTIONS_H
#define SING_OPTIONS_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "message.h"

/* The environment's default for --singularity, for users that always want the option. */
#define SING_DEFAULT_VARIABLE "SINGULARITY_SLURM"

/*
 * Register the options with Slurm; only from slurm_spank_init, in every context in which
 * Slurm may pass options. when_asked, if not NULL, is called after each option that asks for the
 * plugin.
 */
void options_register(spank_t sp, void (*when_asked)(void));

/*
 * Treat the environment's default like an option that the user has given; a real option of the user
 * counts more. Must be called before Slurm reads its own environment: from slurm_spank_init.
 */
void options_from_environment(void);

/* Whether this process's environment has a forwarded option that asks for the plugin. */
bool options_in_environment(void);

/* Whether the user wants the plugin. --singularity=off wins over all other options. */
bool options_on(void);

/*
 * The error in an option that has reached the node, or NULL. A wrong option gets there only if no
 * program of Slurm with this plugin has checked it: in a REST request, say.
 */
const char *options_wrong(void);

/* Add each option that was given to a message. */
void options_add(struct message *m);

/* The value of an option that was given, by its key, or NULL. */
const char *options_value(const char *key);

/* As options_on, for the epilog of a job. */
bool options_on_in_epilog(spank_t sp);

#endif
