// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

// Level is the severity of a finding.
type Level int

// The levels, in rising order.
const (
	OK   Level = iota + 1
	Warn       // works, with less than possible
	Fail       // jobs will not be protected, or not start
)

func (l Level) String() string {
	switch l {
	case OK:
		return "ok"
	case Warn:
		return "warn"
	case Fail:
		return "fail"
	default:
		return "unknown"
	}
}

// Finding is a line of doctor's output. Do is the remedy, for an administrator; Do is empty exactly
// when Level is OK.
type Finding struct {
	Name  string // "criu", "slurm: killwait"
	Level Level
	Found string
	Needs string
	Do    string
	// Fingerprint covers the settings that have to be the same on all nodes; "": this finding has no
	// such setting.
	Fingerprint string
}
