// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/hex"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// A save upon an earlier save names the unchanged blocks by their positions in the files of the earlier save, or of the
// saves below that. Blocks of these files that are not needed any more are dead weight: a kept file is kept whole. So
// if the earlier save needed less than half of a file, no block of that file is named: its blocks that are still needed
// are written once more, into files of their own ("moved"), because a block that has lasted is likely to last. A save's
// files thus hold at most about twice the bytes that the save needs, however many saves there were before, and stable
// blocks are seldom written again.

// maxEarlier is how many saves a server knows. A save that is not kept, because its purpose has failed, is not the end
// of the saves before it.
const maxEarlier = 4

// earlierSave is a save that this server has made, or was built from. An earlierSave does not change. A nil earlierSave
// has no blocks.
type earlierSave struct {
	id        string
	positions map[backend.Hash]blockPosition
	files     map[string]extent
}

// blockPosition is the position of a block's bytes.
type blockPosition struct {
	file  string
	index int
}

// extent is how many blocks a file has, and how many of them the save needs.
type extent struct{ blocks, needed int }

// newEarlier makes an earlier of the blocks of a save. lengths are the lengths of the known files, in blocks.
func newEarlier(id string, blocks []blockState, lengths map[string]int) (*earlierSave, error) {
	e := &earlierSave{id: id, positions: make(map[backend.Hash]blockPosition, len(blocks)), files: map[string]extent{}}
	for _, b := range blocks {
		var h backend.Hash
		raw, err := hex.DecodeString(b.Hash)
		if err != nil || len(raw) != len(h) || b.Index < 0 {
			return nil, fmt.Errorf("block %q at %d: %w", b.Hash, b.Index, ErrRestore)
		}
		copy(h[:], raw)
		e.positions[h] = blockPosition{b.File, b.Index}
		x := e.files[b.File]
		e.files[b.File] = extent{max(x.blocks, lengths[b.File], b.Index+1), x.needed + 1}
	}
	return e, nil
}

// findBlock returns where a block is.
func (e *earlierSave) findBlock(h backend.Hash) (blockPosition, bool) {
	if e == nil {
		return blockPosition{}, false
	}
	at, ok := e.positions[h]
	return at, ok
}

// hasFile tells whether a file belongs to the save.
func (e *earlierSave) hasFile(file string) bool {
	if e == nil {
		return false
	}
	_, ok := e.files[file]
	return ok
}

// isWorthKeeping tells whether a file is to be kept for its needed blocks.
func (e *earlierSave) isWorthKeeping(file string) bool {
	x := e.files[file]
	return 2*x.needed >= x.blocks
}

// fileLengths are the lengths of the save's files.
func (e *earlierSave) fileLengths() map[string]int {
	all := map[string]int{}
	if e != nil {
		for name, x := range e.files {
			all[name] = x.blocks
		}
	}
	return all
}

// saveByID returns the save of an ID, nil if the ID is not known. Saves before it are forgotten. The caller holds mu.
func (k *stateKeeper) saveByID(id string) *earlierSave {
	for i, e := range k.earlier {
		if id != "" && e.id == id {
			k.earlier = k.earlier[i:]
			return e
		}
	}
	return nil
}

// rememberSave adds a save. The caller holds mu.
func (k *stateKeeper) rememberSave(e *earlierSave) {
	k.earlier = append(k.earlier, e)
	k.earlier = k.earlier[max(0, len(k.earlier)-maxEarlier):]
}
