// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"encoding/hex"
	"fmt"
)

// ShareID names granules of memory that several spaces may see. ShareIDs are random, so no two are the same.
type ShareID [16]byte

// Share names an allocation that spaces of the same group may import. No other allocation has the same name, also when
// the allocation was freed.
type Share struct {
	Memory ShareID // the granules in which the allocation lies
	Number uint64  // of the exports in these granules, from 1
}

// MarshalText implements encoding.TextMarshaler.
func (s Share) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%x-%d", s.Memory[:], s.Number), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Share) UnmarshalText(text []byte) error {
	const id = 2 * len(s.Memory)
	if len(text) < id {
		return fmt.Errorf("a share is not %q: %w", text, InvalidValue)
	}
	if _, err := hex.Decode(s.Memory[:], text[:id]); err != nil {
		return fmt.Errorf("a share is not %q: %w", text, InvalidValue)
	}
	if n, err := fmt.Sscanf(string(text[id:]), "-%d", &s.Number); n != 1 || err != nil || s.Number == 0 {
		return fmt.Errorf("a share is not %q: %w", text, InvalidValue)
	}
	return nil
}

// SharedMemory is granules of a space, from Base on, that other spaces may see.
type SharedMemory struct {
	Base Addr
	ID   ShareID
	Last uint64 // Number of the last export
}

// ShareHolder is a Space that finds its allocations which other spaces may import.
type ShareHolder interface {
	// Exported finds the allocation with that name. An allocation that was freed has no name.
	Exported(Share) (Allocation, bool)
}

// Sharer is a Context that shares memory and events with contexts of other spaces with the same SpaceConfig.Group, as
// by CUDA's IPC. A backend without Sharers shares no memory.
//
// Imported memory is an allocation of kind Imported, at an address of the importing space. It does not count as memory
// of that space. The bytes live until the exporter has freed them and no import is left. If the exporter frees an
// allocation of less than half of a Granule while there are imports, the importers see the next allocation that the
// exporter places there.
type Sharer interface {
	// Export names the allocation that holds an address, the same in each call. InvalidValue unless the allocation is the
	// space's own, by Alloc or AllocAsync.
	Export(a Addr) (Share, error)
	// Import maps an allocation of another space. InvalidHandle if the space does not have the allocation any more,
	// and InvalidValue if the space is this context's, or of another group. Import may wait for work which uses
	// addresses that were freed and now return.
	Import(from Space, s Share) (Addr, error)
	// CloseImport undoes an Import of the context's space. CloseImport does not wait, like Free.
	CloseImport(a Addr) error
	// OpenEvent makes an event of this context that shares its recordings with another context's event: if either is
	// recorded, both stand for that work.
	OpenEvent(Event) (Event, error)
}
