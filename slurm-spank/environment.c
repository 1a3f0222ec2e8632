// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "log.h"

/*
 * Which devices a program of CUDA sees, and Slurm's names of the job's devices
 * (libsingshim/wire/attach.h).
 */
#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define DEVICE_NAMES "SINGULARITY_SLURM_DEVICE_NAMES"

void set_variable(spank_t sp, const char *name, const char *value)
{
	const spank_err_t err = spank_setenv(sp, name, value, 1);

	if (err != ESPANK_SUCCESS)
		sing_error("%s cannot be set: %s", name, spank_strerror(err));
}

void add_path(spank_t sp, const char *name, const char *path, enum place place)
{
	static char list[64 * 1024];
	const size_t n = strlen(path);
	const spank_err_t err = spank_getenv(sp, name, list, sizeof(list) - PATH_MAX - 1);
	size_t used;

	if (err == ESPANK_ENV_NOEXIST) {
		list[0] = '\0';
	} else if (err != ESPANK_SUCCESS || n >= PATH_MAX) {
		sing_error("%s is too long to add %s", name, path);
		return;
	}
	for (const char *at = list; (at = strstr(at, path)); at += n) {
		if ((at == list || strchr(": ", at[-1])) && (!at[n] || strchr(": ", at[n])))
			return;
	}
	used = strlen(list);
	if (place == FIRST && used) {
		memmove(list + n + 1, list, used + 1);
		memcpy(list, path, n);
		list[n] = ':';
	} else {
		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ":" : "", path);
	}
	set_variable(sp, name, list);
}

void drop_path(spank_t sp, const char *name, const char *path)
{
	static char list[64 * 1024];
	const size_t n = strlen(path);
	char *at = list;

	if (spank_getenv(sp, name, list, sizeof(list)) != ESPANK_SUCCESS)
		return;
	while ((at = strstr(at, path))) {
		if ((at == list || strchr(": ", at[-1])) && (!at[n] || strchr(": ", at[n])))
			memmove(at, at + n + (at[n] != '\0'), strlen(at + n + (at[n] != '\0')) + 1);
		else
			at += n;
	}
	set_variable(sp, name, list);
}

void number_devices(spank_t sp)
{
	char visible[1024], names[1024], places[1024];

	if (spank_getenv(sp, VISIBLE, visible, sizeof(visible)) != ESPANK_SUCCESS ||
	    spank_getenv(sp, DEVICE_NAMES, names, sizeof(names)) != ESPANK_SUCCESS ||
	    !devices_renumber(visible, names, places, sizeof(places)))
		return;
	set_variable(sp, VISIBLE, places);
	if (devices_count(names, places, sizeof(places)))
		set_variable(sp, DEVICE_NAMES, places);
}
