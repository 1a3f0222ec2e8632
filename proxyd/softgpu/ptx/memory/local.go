// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

// lanes is the number of threads in a warp.
const lanes = 32

// Local is the local memory of a warp's threads, the memory of each thread after that of the thread before. It is for a
// single goroutine.
type Local struct {
	Data []byte
	Size uint32        // of a thread
	Used bool          // written since it was cleared
	Tops [lanes]uint32 // end of the memory that alloca returned
}

// Init makes room for size bytes of each thread.
func (l *Local) Init(size uint32) {
	l.Size = (size + 15) &^ 15
	l.Data = make([]byte, uint64(l.Size)*lanes+16)
}

// Clear clears the memory, so that no block sees values of another.
func (l *Local) Clear() {
	if l.Used {
		clear(l.Data)
		l.Used = false
	}
	l.Tops = [lanes]uint32{}
}

// LaneBytes returns n bytes of a lane's memory; they are within.
func (l *Local) LaneBytes(lane int, at, n uint32) []byte {
	l.Used = true
	return l.Data[uint64(lane)*uint64(l.Size)+uint64(at):][:n:n]
}

// HighestEnd is the highest end of the memory that alloca returned to the lanes m.
func (l *Local) HighestEnd(m uint32) uint32 {
	t := uint32(0)
	for i := range lanes {
		if m>>i&1 != 0 {
			t = max(t, l.Tops[i])
		}
	}
	return t
}

// RestoreTop frees the memory that alloca returned to the lanes m above limit.
func (l *Local) RestoreTop(m, limit uint32) {
	for i := range lanes {
		if m>>i&1 != 0 {
			l.Tops[i] = min(l.Tops[i], limit)
		}
	}
}
