// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// AddressUse says at which addresses a piece of work may use memory. The zero value says any: a kernel follows pointers.
type AddressUse struct {
	known   bool
	buffers []backend.Buffer
}

// UsesOnly is the AddressUse of work that uses memory in these buffers, and nowhere else.
func UsesOnly(buffers ...backend.Buffer) AddressUse { return AddressUse{true, buffers} }

// MayUse tells whether the work may use memory in a range of n bytes.
func (u AddressUse) MayUse(a backend.Addr, n uint64) bool {
	return !u.known || slices.ContainsFunc(u.buffers, func(b backend.Buffer) bool {
		return uint64(b.Addr) < uint64(a)+n && uint64(a) < uint64(b.Addr)+b.Size
	})
}
