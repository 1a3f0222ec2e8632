// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The values that users may give to options. Each function checks text and writes the value in
 * proxyd's form into out. It returns NULL, or the error, to which the caller adds the accepted
 * form.
 */
#ifndef SING_VALUES_H
#define SING_VALUES_H

enum { VALUE_SIZE = 4096 }; /* of out, and no text is longer */

const char *value_time(const char *text, char out[VALUE_SIZE]);
const char *value_gpus(const char *text, char out[VALUE_SIZE]);
const char *value_job(const char *text, char out[VALUE_SIZE]);
const char *value_on_failure(const char *text, char out[VALUE_SIZE]);
const char *value_outside(const char *text, char out[VALUE_SIZE]);
const char *value_ports(const char *text, char out[VALUE_SIZE]);
const char *value_exact(const char *text, char out[VALUE_SIZE]);
const char *value_paths(const char *text, char out[VALUE_SIZE]);

#endif
