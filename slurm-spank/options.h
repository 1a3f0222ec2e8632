// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* What the user asked for. */
#ifndef SING_OPTIONS_H
#define SING_OPTIONS_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "message.h"

/* The environment's default for --singularity, for users that always want the option. */
#define SING_DEFAULT_VARIABLE "SINGULARITY_SLURM"

/*
 * Register the options with Slurm; only from slurm_spank_init, in every context in which
 * they may come. when_asked, if not NULL, is called whenever an option was taken that
 * asks for us.
 */
void options_register(spank_t sp, void (*when_asked)(void));

/*
 * Let the environment's default be as if the user had given the default to the program; an
 * option that the user gives wins. Before Slurm reads its own environment, that is: from
 * slurm_spank_init.
 */
void options_from_environment(void);

/* Whether Slurm will find an option of ours in this process's environment that asks for us. */
bool options_in_environment(void);

/* Whether we are wanted. --singularity=off wins over all other options. */
bool options_on(void);

/*
 * NULL, or what is wrong with an option that has reached the node. A wrong option can only
 * be there if no program of Slurm's that knows the plugin has seen the option: a REST
 * request, say.
 */
const char *options_wrong(void);

/* Add each option that was given to a message. */
void options_add(struct message *m);

/* The value of an option that was given, by its key, or NULL. */
const char *options_value(const char *key);

/* As options_on, for the epilog of a job. */
bool options_on_in_epilog(spank_t sp);

#endif
