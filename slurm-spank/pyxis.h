// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Which tasks NVIDIA's plugin pyxis puts into a container. Slurm tells no plugin the options of
 * another, except by the environment of srun and sbatch, and only there.
 */
#ifndef SING_PYXIS_H
#define SING_PYXIS_H

#include <slurm/spank.h>
#include <stdbool.h>

/* In srun and sbatch: note for the tasks whether the user gave pyxis a container. */
void pyxis_note_options(void);

/* In a task, before pyxis' hook: whether pyxis will put this process into a container. */
bool pyxis_has_container(spank_t sp);

/* Remove the note from the task's environment. */
void pyxis_forget_note(spank_t sp);

#endif
