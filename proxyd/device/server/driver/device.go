// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// DriverVersion is the version of CUDA's driver that programs are told.
const DriverVersion = 13000

// Device is a device of the job: what processes see. Several may be on a device of the backend; their spaces take
// turns.
type Device struct {
	backend.Device
	ShownInfo  *backend.Info // what programs are told: of the device that they began with
	Base       backend.Addr  // of each space of the device: no two devices have the same addresses
	TimeSlices *TimeSlices
}

// Info implements backend.Device.
func (d *Device) Info() *backend.Info { return d.ShownInfo }
