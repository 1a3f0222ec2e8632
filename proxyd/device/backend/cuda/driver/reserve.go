// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include "driver.h"
import "C"

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// Rehearsal is the owner of contexts that are made to see where the driver would put variables.
const Rehearsal uint64 = C.SING_REHEARSAL

// The driver has as many places as numbers are given out for.
var _ [backend.OwnerPlaces]struct{} = [C.SING_RESERVE_OWNERS]struct{}{}

// OwnsPlace tells whether the addresses that the driver reserves for an owner are of no other owner.
func OwnsPlace(owner uint64) bool { return C.sing_reserve_alone(C.uint64_t(owner)) != 0 }

// PlaceOf is where the addresses that the driver reserves for an owner begin.
func PlaceOf(owner uint64) backend.Addr { return backend.Addr(C.sing_reserve_base(C.uint64_t(owner))) }

// RestartPlace has the driver's next reservations for an owner begin at PlaceOf again. The owner has no contexts.
func RestartPlace(owner uint64) { C.sing_reserve_again(C.uint64_t(owner)) }

// LeavePlace is called when all contexts of an owner have ended, and no more come. The place's next owner has the addresses
// that it would have in a new process, if the driver has given back the addresses of the contexts.
func LeavePlace(owner uint64) { C.sing_reserve_leave(C.uint64_t(owner)) }
