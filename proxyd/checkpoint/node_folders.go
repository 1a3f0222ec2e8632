// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"path/filepath"
)

// nodeFolders names the files of this node's state; doc.go lists them.
type nodeFolders struct{ lib string }

// folders names the files of this node's state.
func (c *Conductor) folders() nodeFolders { return nodeFolders{c.Lib} }

func (f nodeFolders) capturePath() string { return filepath.Join(f.lib, "capture") }

func (f nodeFolders) notePath(job uint32, index int) string {
	return filepath.Join(f.notesDir(), fmt.Sprintf("%d.%d.json", job, index))
}

func (f nodeFolders) capsuleDir(job uint32, index int) string {
	return filepath.Join(f.capsulesDir(), fmt.Sprintf("%d.%d", job, index))
}

func (f nodeFolders) deviceDir(job uint32, index int) string {
	return filepath.Join(f.devicesDir(), capsuleName(job, index))
}

// journalDir is the folder of a capsule's list of changed files, on this node.
func (f nodeFolders) journalDir(job uint32, index int) string {
	return filepath.Join(f.lib, "lists", fmt.Sprintf("%d.%d", job, index))
}

// srunDir is the folder of the sruns that a capsule's programs started.
func (f nodeFolders) srunDir(job uint32, index int) string {
	return filepath.Join(f.lib, "sruns", fmt.Sprintf("%d.%d", job, index))
}

func (f nodeFolders) capsulesDir() string { return filepath.Join(f.lib, "capsules") }

func (f nodeFolders) devicesDir() string { return filepath.Join(f.lib, "devices") }

func (f nodeFolders) notesDir() string { return filepath.Join(f.lib, "notes") }
