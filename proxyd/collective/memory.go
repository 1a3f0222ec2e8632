// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

// Memory has buffers of ranks that share a device be the same memory. All buffers belong to operations that are not
// complete. Methods are called from several goroutines, and for no buffer at the same time.
type Memory interface {
	// CanShare tells whether GiveUp and Spread save memory for at least two of these buffers. An answer holds until the
	// operations of the buffers are complete.
	CanShare(buffers [][]byte) bool
	// GiveUp gives up memory of a buffer. The buffer's bytes are undefined from then on, and it may be written to again.
	GiveUp(buffer []byte)
	// Spread gives buffers the bytes of from, which has their length. from may be one of the buffers.
	Spread(from []byte, buffers [][]byte)
}

// UseMemory has the Node's communicators use a Memory. UseMemory is called before the first of them is made.
func (n *Node) UseMemory(m Memory) { n.memory = m }

// receiveBuffers returns where the local ranks receive.
func (r *run) receiveBuffers() (all [][]byte) {
	for _, rank := range r.local {
		all = append(all, r.localOp(rank).Recv)
	}
	return all
}

// canSpread tells whether what all local ranks receive can be there once for several of them.
func (r *run) canSpread() bool {
	m := r.node.memory
	return m != nil && len(r.local) > 1 && m.CanShare(r.receiveBuffers())
}

// spreadToLocal gives the local ranks the bytes that all of them receive. No message is under way that uses their
// memory. from may be the buffer of a rank.
func (r *run) spreadToLocal(from []byte) {
	if r.canSpread() {
		r.node.memory.Spread(from, r.receiveBuffers())
		return
	}
	for _, rank := range r.local {
		copy(r.localOp(rank).Recv, from)
	}
}
