// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// onDevice is a side of the copy that is on a device: whichever has the address. Pinned memory of the program has an address of
// devices, too.
func (k *copier) onDevice(a uint64) backend.CopySide {
	place := backend.CopySide{Addr: a}
	switch s := k.p.SpaceAt(backend.Addr(a)); {
	case s == nil && k.all.isPinned(a):
		return k.inProgram(a)
	case s != nil && s != k.st.Context.Space:
		place.Space = s.Space
	}
	return place
}

// inProgram is a side of the copy that is in the program's memory.
func (k *copier) inProgram(a uint64) backend.CopySide {
	return backend.CopySide{Addr: a, Host: k.memory}
}

// inProgramRow is inProgram for n bytes in a row: of pinned memory that the server has mapped they are copied from
// there.
func (k *copier) inProgramRow(a, n uint64) backend.CopySide {
	if s := k.shares.findShare(backend.Addr(a), n); s != nil {
		return backend.CopySide{Addr: a, Host: s}
	}
	return k.inProgram(a)
}

// onAnySide is a side of the copy with an address that tells the kind of memory.
func (k *copier) onAnySide(a uint64) backend.CopySide {
	if k.p.SpaceAt(backend.Addr(a)) != nil {
		return k.onDevice(a)
	}
	return k.inProgram(a)
}
