// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
)

// NewKey returns the key of the n-th srun of a capsule.
func NewKey(capsule, n int) string { return fmt.Sprintf("s%d-%d", capsule, n) }

// KeyNumber returns n of NewKey, or Slurm's number of a step that has no srun of ours ("x7"); 0 for a text that is no
// key.
func KeyNumber(key string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(key[strings.LastIndexByte(key, '-')+1:], "x"))
	return n
}

var keyPattern = regexp.MustCompile(`^s[0-9]{1,6}-[0-9]{1,9}$`)

// CheckKey returns an error unless a key may belong to the capsule. A program of the capsule sent the key.
func CheckKey(capsule int, key string) error {
	if !keyPattern.MatchString(key) || !strings.HasPrefix(key, fmt.Sprintf("s%d-", capsule)) {
		return fmt.Errorf("key %q does not belong to this capsule", key)
	}
	return nil
}

// Layout returns the nodes of this run for a step and its tasks. restored is the checkpoint from
// which the run resumes; nil: the run began anew.
func Layout(restored *records.Meta, where records.Placement, key string) (srun.Layout, error) {
	l := srun.Layout{Nodes: where.NodeTranslation()}
	if restored == nil {
		return l, nil
	}
	capsules, err := restored.StepTasks(key)
	if err != nil {
		return l, err
	}
	for _, k := range capsules {
		l.Tasks = append(l.Tasks, where.NodeOf(k))
	}
	l.Overcommit = len(where.ThisRun) < len(where.FirstRun)
	return l, nil
}

// Outputs returns the files that slurmstepd wrote for a step that is to be restored.
func Outputs(restored *records.Meta, key string) (all []string) {
	if restored == nil {
		return nil
	}
	for _, c := range restored.Capsules {
		for _, p := range c.Programs {
			if k, _, ok := records.ParseTaskName(p.Name); !ok || k != key {
				continue
			}
			for _, path := range p.Image.Program.Stdio[1:] {
				if filepath.IsAbs(path) && !slices.Contains(all, path) {
					all = append(all, path)
				}
			}
		}
	}
	return all
}
