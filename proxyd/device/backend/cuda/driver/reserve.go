// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include "driver.h"
import "C"

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// Rehearsal is the owner of contexts that are made to see where the driver would put variables.
const Rehearsal uint64 = C.SING_REHEARSAL

// OwnsPlace tells whether the addresses that the driver reserves for an owner are of no other owner.
func OwnsPlace(owner uint64) bool { return C.sing_reserve_alone(C.uint64_t(owner)) != 0 }

// PlaceOf is where the addresses that the driver reserves for an owner begin.
func PlaceOf(owner uint64) backend.Addr { return backend.Addr(C.sing_reserve_base(C.uint64_t(owner))) }

// RestartPlace has the driver's next reservations for an owner begin at PlaceOf again. The owner has no contexts.
func RestartPlace(owner uint64) { C.sing_reserve_again(C.uint64_t(owner)) }
