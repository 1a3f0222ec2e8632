// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pyxis.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#define NOTE "SLURM_SINGULARITY_PYXIS" /* Slurm hands on SLURM_…, whatever the user exports */

/* Slurm's names of pyxis' options in the environment; each begins a container. */
static const char *const options[] = { "_SLURM_SPANK_OPTION_pyxis_container_image",
				       "_SLURM_SPANK_OPTION_pyxis_container_name" };

/* The variables that pyxis takes for these options. */
static const char *const variables[] = { "PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME" };

void pyxis_note_options(void)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); ++i) {
		if (getenv(options[i])) {
			setenv(NOTE, "yes", 1);
			return;
		}
	}
	unsetenv(NOTE); /* an outer step's */
}

static int is_pyxis(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;

	return (info->dlpi_name && strstr(info->dlpi_name, "pyxis") != NULL);
}

static bool has_variable(spank_t sp, const char *name)
{
	char value[16]; /* only whether there is one: a longer value does not fit, and is one */
	const spank_err_t err = spank_getenv(sp, name, value, sizeof(value));

	return (err == ESPANK_NOSPACE || (err == ESPANK_SUCCESS && value[0]));
}

bool pyxis_has_container(spank_t sp)
{
	if (has_variable(sp, NOTE))
		return (true);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); ++i) {
		if (has_variable(sp, variables[i]) || getenv(variables[i]))
			return (dl_iterate_phdr(is_pyxis, NULL) != 0);
	}

	return (false);
}

void pyxis_forget_note(spank_t sp)
{
	spank_unsetenv(sp, NOTE);
}
