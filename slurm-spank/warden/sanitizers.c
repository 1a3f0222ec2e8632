// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Only in the build with sanitizers. They read their options from /proc/self, which this
 * process does not have, and write a complaint about that into the program's output. An error that
 * they find ends the process with a status that no test expects.
 */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

#define OPTIONS "detect_leaks=0:log_path=/tmp/sanitizer:exitcode=99"

const char *__asan_default_options(void)
{
	return (OPTIONS);
}

const char *__ubsan_default_options(void)
{
	return (OPTIONS);
}
