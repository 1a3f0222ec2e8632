// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

// BytesMemory is memory of the server's that a copy uses like a program's, at addresses from 0.
type BytesMemory []byte

// Read implements backend.HostMemory.
func (m BytesMemory) Read(addr uint64, b []byte) error {
	copy(b, m[addr:])
	return nil
}

// Write implements backend.HostMemory.
func (m BytesMemory) Write(addr uint64, b []byte) error {
	copy(m[addr:], b)
	return nil
}
