// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package script finds the parts of a batch script that a checkpoint will not have, and reads the errors of sbatch
// and of the script's interpreter. The package runs no part of the script: the script does not tell what a program
// does once it runs; proxyd looks at that half a minute after the start of a job.
package script

import (
	"cmp"
	"slices"
	"strings"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	// Refused findings keep the job from being submitted, or its script from being run.
	Refused Level = "refused"
	// Unprotected jobs have no checkpoints at all.
	Unprotected Level = "unprotected"
	// Uncaptured commands make checkpoints fail while they run.
	Uncaptured Level = "not captured"
	// Changed parts go on differently after a restore.
	Changed Level = "changed"
)

// Finding is a line of a script that has to do with checkpoints.
type Finding struct {
	Level Level  `json:"level"`
	Line  int    `json:"line"` // 0: of the script as a whole
	What  string `json:"what"`
	Do    string `json:"do"`
}

// Find returns the findings in a script, by line. The script is of bash or sh, or of another
// language: then only its lines with #SBATCH are understood.
func Find(text string) []Finding {
	options, commands := parseScript(text)
	var all []Finding
	for _, rule := range optionRules {
		for _, o := range options {
			if rule.matchesOption(o) {
				all = append(all, Finding{rule.level, o.line, o.shownText(), rule.do})
			}
		}
	}
	if !slices.ContainsFunc(options, asksForProtection) {
		all = append(all, Finding{
			Unprotected, 0, "the script has no line #SBATCH --singularity",
			"add the line, or submit it with sbatch --singularity",
		})
	}
	for _, c := range commands {
		for _, rule := range commandRules {
			if rule.matchesCommand(c) {
				all = append(all, Finding{rule.level, c.line, c.shownText(), rule.do})
				break
			}
		}
	}
	SortByLine(all)
	return all
}

// SortByLine sorts findings by line.
func SortByLine(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
}

// asksForProtection tells whether an option makes the job a protected one: --singularity, or an
// option that implies it.
func asksForProtection(o option) bool {
	if o.name == "--singularity" {
		return o.value != "off"
	}
	return strings.HasPrefix(o.name, "--singularity-") && o.name != "--singularity-lease"
}
