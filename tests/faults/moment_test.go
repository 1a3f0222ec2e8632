//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"regexp"
	"strings"
)

// stage is the operation that is under way when the fault comes.
type stage string

const (
	runsOn  stage = "checkpoint, the job runs on"
	leaves  stage = "checkpoint, the job is requeued"
	returns stage = "restore"
)

// A job with software GPUs has the same stages, and phases of its own in them.
const (
	software   stage = ", software GPUs"
	gpusRunOn        = runsOn + software
	gpusLeave        = leaves + software
	gpusReturn       = returns + software
)

var stages = []stage{runsOn, leaves, returns, gpusRunOn, gpusLeave, gpusReturn}

func (s stage) hasGPUs() bool { return strings.HasSuffix(string(s), string(software)) }

// is compares stages, with GPUs or without.
func (s stage) is(other stage) bool {
	return strings.TrimSuffix(string(s), string(software)) == string(other)
}

// title begins with a capital letter.
func (s stage) title() string { return strings.ToUpper(string(s[:1])) + string(s[1:]) }

// stageMoment is when a phase or a step has just begun: a line in the log of some node's proxyd.
type stageMoment struct {
	stage stage
	name  string
	line  *regexp.Regexp
}

func beginOf(s stage, name, more string) stageMoment {
	return stageMoment{s, name, regexp.MustCompile(`msg="(?:phase|step) begins" .*(?:phase|step)=` + strings.Fields(name)[0] + more + `( |$)`)}
}

// moments are the moments of all stages, in the order of events.
var moments = []stageMoment{
	beginOf(runsOn, "prepare", ""), beginOf(runsOn, "freeze", ""), beginOf(runsOn, "drain", ""), beginOf(runsOn, "halt", ""),
	beginOf(runsOn, "dump", ""), beginOf(runsOn, "commit", ""), beginOf(runsOn, "resume", ""),

	beginOf(leaves, "prepare", ""), beginOf(leaves, "freeze", ""), beginOf(leaves, "drain", ""), beginOf(leaves, "halt", ""),
	beginOf(leaves, "dump", ""), beginOf(leaves, "commit", ""), beginOf(leaves, "release", ""),

	beginOf(returns, "make_capsules", ""),
	beginOf(returns, "restore batch", " program=batch"),
	{returns, "sruns", regexp.MustCompile(`msg="program restored" .*program=batch`)},
	beginOf(returns, "restore task", ` program=s\S*`),
	beginOf(returns, "unlock", ""),

	beginOf(gpusRunOn, "cut", ""), devicesSaved(gpusRunOn), beginOf(gpusLeave, "cut", ""), devicesSaved(gpusLeave),
	beginOf(gpusReturn, "restore batch", " program=batch"), beginOf(gpusReturn, "reconnect_devices", ""), beginOf(gpusReturn, "unlock", ""),
}

// devicesSaved is in the middle of a dump: the devices of a single node are saved.
func devicesSaved(s stage) stageMoment {
	return stageMoment{s, "devices", regexp.MustCompile(`msg="devices saved"`)}
}

// uploading are the moments that exist only with a staging folder.
var uploading = []stageMoment{beginOf(runsOn, "upload", ""), beginOf(leaves, "upload", "")}

func momentsOf(s stage) []stageMoment {
	var all []stageMoment
	for _, m := range moments {
		if m.stage == s {
			all = append(all, m)
		}
	}
	return all
}

// at says whether a line of a log is the moment, for a job.
func (m stageMoment) at(l line, job string) bool {
	return isOfJob(l, job) && m.line.MatchString(l.text)
}

func isOfJob(l line, job string) bool { return strings.Contains(l.text+" ", " job="+job+" ") }

// lastMoment is the last moment that some lines tell of, or "over", or "".
func lastMoment(lines []line, s stage, job string) string {
	last := ""
	for _, l := range lines {
		for _, m := range momentsOf(s) {
			if m.at(l, job) {
				last = m.name
			}
		}
		if isOfJob(l, job) && (strings.Contains(l.text, `msg="checkpoint over"`) || strings.Contains(l.text, `msg="job restored"`)) {
			last = "over"
		}
	}
	return last
}
