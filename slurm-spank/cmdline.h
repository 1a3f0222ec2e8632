// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The words that the user gave to the program of Slurm that has loaded the plugin. */
#ifndef SING_CMDLINE_H
#define SING_CMDLINE_H

struct cmdline {
	int argc;
	char **argv; /* the program itself first */
};

/* Read this process's command line. argc is 0 if the command line cannot be read. */
void cmdline_read(struct cmdline *c);

void cmdline_free(struct cmdline *c);

/*
 * How many of sbatch's words are before its script, itself included. Slurm does not tell
 * the plugin in time, so this function has a list of sbatch's options that do not take the next
 * word as their value.
 */
int cmdline_before_script(const struct cmdline *c);

/*
 * Call take(to, words, n) with the words of each #SBATCH line that sbatch reads in a script: those before the first
 * command. Returns 0, or -1 if the script is no regular file that can be read.
 */
int cmdline_read_script(const char *path, void (*take)(void *to, char *const *words, int n), void *to);

#endif
