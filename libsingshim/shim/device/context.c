// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "context.h"

_Thread_local struct sing_context *sing_current __attribute__((tls_model("initial-exec"), visibility("hidden")));
