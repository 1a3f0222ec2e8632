// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package slurmtest has a Slurm for tests: squeue prints jobs that the test sets.
package slurmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// squeue prints the lines of the file "jobs" in the folder of squeue, in the form of squeue 26.05. The file "comment" is
// the comment of all jobs.
const squeue = `#!/bin/sh
cd "$(dirname "$0")"
[ ! -e away ] || { echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1; }
case "$*" in
*--Format=Comment:*) [ ! -e comment ] || { cat comment; exit; } ;;
*--Format=admin_comment:*) [ ! -e admin_comment ] || { cat admin_comment; exit; } ;;
esac
case "$*" in
*--jobs=*)
	id=${*##*--jobs=}; id=${id%% *}
	grep "^$id|" jobs || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; } ;;
*) cat jobs ;;
esac
`

// Queue is a Slurm with jobs that a test sets.
type Queue struct {
	// Dir has the commands. A test may add scontrol.
	Dir string
}

// NewQueue returns a Slurm without jobs, until the end of the test.
func NewQueue(t *testing.T) Queue {
	t.Helper()
	q := Queue{t.TempDir()}
	if err := os.WriteFile(filepath.Join(q.Dir, "squeue"), []byte(squeue), 0o755); err != nil {
		t.Fatal(err)
	}
	return q
}

// Set sets the states of all jobs. Slurm knows no other jobs.
func (q Queue) Set(t *testing.T, states map[uint32]string) {
	t.Helper()
	var b strings.Builder
	for id, state := range states {
		fmt.Fprintf(&b, "%d|1001|%s|None|1|1|1|n1|2026-11-20T16:41:18|N/A|%d|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|\n", id, state, id)
	}
	if err := os.WriteFile(filepath.Join(q.Dir, "jobs"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// SetComment sets the comment of all jobs.
func (q Queue) SetComment(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(q.Dir, "comment"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// SetAdminComment sets the administrator's comment of all jobs.
func (q Queue) SetAdminComment(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(q.Dir, "admin_comment"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// SetAway has Slurm answer no more, or again.
func (q Queue) SetAway(t *testing.T, isAway bool) {
	t.Helper()
	path := filepath.Join(q.Dir, "away")
	err := os.WriteFile(path, nil, 0o644)
	if !isAway {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Slurm returns a slurm.Slurm with commands that ask the Queue.
func (q Queue) Slurm() *slurm.Slurm { return slurm.New(filepath.Join(q.Dir, "scontrol")) }
