// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The devices, as this process sees them. */
#ifndef SING_DEVICE_DEVICE_H
#define SING_DEVICE_DEVICE_H

#include "gen_abi.h"

/* The most devices that a process sees. */
#define SING_DEVICES 64

/* The number of devices; 0 before cuInit. */
int sing_devices(void);

/* An attribute of a device that exists. Only the first call sends a message. Returns a CUresult. */
int sing_device_attribute(int dev, int attribute, int *value);

/*
 * The primary context of a device, retained or not: its handle is the same as long as the process lives, as with CUDA. A
 * CUresult.
 */
int sing_primary_context(int dev, CUcontext *ctx);

#endif
