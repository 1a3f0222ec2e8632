// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Memory and events that processes share by CUDA's IPC. The server does the work. */
#ifndef SING_SHARE_H
#define SING_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether this process has events that it shares. */
bool sing_shares_events(void);

/* Whether the message records, or waits for, an event that is shared. */
bool sing_uses_shared_event(uint32_t op, const void *in, size_t n);

/* The event was destroyed. */
void sing_event_ended(uint64_t event);

#endif
