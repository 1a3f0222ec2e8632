// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "sync/atomic"

// Lease lets the process allocate n more bytes of a device without asking. The caller keeps an
// account of its own of what was leased and what the process says that it allocated: the process
// may write any number into the ring.
func (r *Ring) Lease(device int, n uint64) error {
	if !r.enterMapping() {
		return ErrClosed
	}
	defer r.leaveMapping()
	atomic.AddUint64(&r.mem.headOf().lease[device], n)
	return nil
}
