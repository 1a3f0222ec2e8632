// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
)

var (
	jobSyntax        = regexp.MustCompile(`^[1-9][0-9]{0,9}(?:_[0-9]{1,9})?(?:\+[0-9]{1,9})?$`)
	checkpointSyntax = regexp.MustCompile(`^(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,63}/)?([^/]{1,40})/([0-9]{1,10})$`)
)

// Names of the phases of a checkpoint, in order. From PhaseFreeze on the job stands still.
const (
	PhasePrepare = "prepare"
	PhaseCut     = "cut"
	PhaseFreeze  = "freeze"
	PhaseDrain   = "drain"
	PhaseHalt    = "halt"
	PhaseDump    = "dump"
	PhaseCommit  = "commit"
)

// Waiting is the phase of a checkpoint that has not begun, because the checkpoint before is still
// on its way to the store. A checkpoint in any other phase goes on when its caller has gone.
const Waiting = "waiting"

// MaxReason is the greatest length of a checkpoint's reason, in bytes.
const MaxReason = kind.MaxReason

// CheckJob returns an error of kind ErrInvalid unless s names a job: "812", "812_3" for a
// task of an array, "812+1" for a component of a heterogeneous job.
func CheckJob(s string) error {
	number, _, _ := strings.Cut(s, "_")
	number, _, _ = strings.Cut(number, "+")
	if n, err := strconv.ParseUint(number, 10, 32); !jobSyntax.MatchString(s) || err != nil || n == 0 {
		return Errorf(ErrInvalid, "job %.40q: want a number, as in 812, 812_3 or 812+1", s)
	}
	return nil
}

// CheckpointJob returns the job of a checkpoint's name, which is "CLUSTER/JOB/NUMBER" or
// "JOB/NUMBER"; else an error of kind ErrInvalid.
func CheckpointJob(s string) (job string, err error) {
	m := checkpointSyntax.FindStringSubmatch(s)
	if m == nil || CheckJob(m[1]) != nil {
		return "", Errorf(ErrInvalid, "checkpoint %.120q: want JOB/NUMBER, as in 812/3 or mini/812/3", s)
	}
	if _, err := strconv.ParseUint(m[2], 10, 32); err != nil {
		return "", Errorf(ErrInvalid, "checkpoint %.120q: number out of range", s)
	}
	return m[1], nil
}
