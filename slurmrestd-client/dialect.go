// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"strconv"
	"strings"
	"time"
)

// The versions of the REST API that the client speaks. Every Slurm release from 22.05 to 26.05
// serves at least one version of these; v0.0.39 is left out on purpose, because each release that
// serves v0.0.39 also serves a neighbour with fewer faults.
const (
	V0038 = "v0.0.38" // Slurm 22.05, 23.02, 23.11
	V0040 = "v0.0.40" // 23.11 to 25.05
	V0042 = "v0.0.42" // 24.11 to 26.05
	V0045 = "v0.0.45" // 26.05 on
)

// dialects are all that the client speaks, newest first: the order of probing.
var dialects = []dialect{
	v0045{modernVersion{V0045}}, v0042{modernVersion{V0042}}, v0040{modernVersion{V0040}}, v0038{},
}

// A dialect is a version of the API: the layout of its records and the form of its requests.
// Dialects hold no state.
type dialect interface {
	versionName() string
	listAbilities() abilities

	jobTable() table[Job]
	nodeTable() table[Node]
	partitionTable() table[Partition]

	formatSince(time.Time) string // update_time of a list
	jobSubmit(JobSubmit) draft
	jobUpdate(u JobUpdate, now time.Time) draft
	nodeUpdate(NodeUpdate) draft
}

// unixSeconds writes an instant in the form of most versions.
func unixSeconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// utsSeconds writes an instant for fields that Slurm's parse_time reads: parse_time takes bare
// digits for a date like MMDDYY.
func utsSeconds(t time.Time) string { return "uts" + unixSeconds(t) }

// body is a request's JSON object.
type body map[string]any

// draft is a body, or the error if the version cannot express the request.
type draft struct {
	body body
	err  error
}

// abilities are the features that some versions have and others lack.
type abilities struct {
	lastUpdate bool // a list has the time when the list was made, to be fed back
	signalTo   bool // a signal may go to the batch shell or the steps only
	signalSaid bool // a signal that no job got is an error
	updateTask bool // an update may name "12_3"
	arrayFalse bool // an update of an array that went well is reported as error 0
	updateNode bool
	requeue    bool
	reserve    bool // make and delete reservations
	// resComment: the releases that serve this version have comments of reservations.
	resComment bool
	// resApart: a job in a reservation with FLEX and OVERLAP stays out of other reservations.
	resApart bool
}

// putIfSet adds a member if the pointer is not nil.
func putIfSet[T any](b body, name string, value *T) {
	if value != nil {
		b[name] = *value
	}
}

// putText adds a text member unless the text is empty.
func putText(b body, name, value string) {
	if value != "" {
		b[name] = value
	}
}

// putCount adds a number member unless the number is 0.
func putCount(b body, name string, value int64) {
	if value != 0 {
		b[name] = value
	}
}

// earliestBegin returns begin, or now if begin is in the past.
func earliestBegin(begin, now time.Time) time.Time {
	if begin.Before(now) {
		return now
	}
	return begin
}

// tresText spells a TRES request in the neutral way: "gres:gpu:2" of releases
// before 23.11 is "gres/gpu:2" since.
func tresText(at func(*Job) *string) field[Job] {
	return func(s *scanner, j *Job) {
		text := s.readText()
		if strings.Contains(text, "gres:") {
			text = strings.ReplaceAll(text, "gres:", "gres/")
		}
		*at(j) = text
	}
}
