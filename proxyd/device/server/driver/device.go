// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// DriverVersion is the version of CUDA's driver that programs are told.
const DriverVersion = 13000

// Place is a device of the backend, and the turns of the spaces there.
type Place struct {
	backend.Device
	TimeSlices *TimeSlices
}

// Device is a device of the job, as processes see it. Several may be on a device of the backend; their spaces take
// turns. A Device can change to another device of the backend while the job runs.
type Device struct {
	ShownInfo *backend.Info // as programs see it: of the device that they began with
	Base      backend.Addr  // of a range of addresses, as many as there are devices: see chooseAddresses
	Size      uint64        // of that range

	mu sync.RWMutex // held for reading while a space is made: no space is made on a place that the device has left
	at Place
}

// NewDevice makes a device that is at a place, and looks like the device there.
func NewDevice(at Place) *Device { return &Device{at: at, ShownInfo: at.Info()} }

// Info describes the device to programs.
func (d *Device) Info() *backend.Info { return d.ShownInfo }

// Place is the place where the device is now.
func (d *Device) Place() Place {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.at
}

// SetPlace has spaces that are made from now on be at another place. Existing spaces stay: see Process.MoveSpaces.
func (d *Device) SetPlace(at Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
}
