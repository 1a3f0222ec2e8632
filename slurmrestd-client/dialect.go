// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"strconv"
	"strings"
	"time"
)

// The versions of the REST API that the client speaks. Every Slurm release from
// 22.05 to 26.05 serves at least one; v0.0.39 is left out on purpose, because each
// release that serves it also serves a neighbour with fewer faults.
const (
	V0038 = "v0.0.38" // Slurm 22.05, 23.02, 23.11
	V0040 = "v0.0.40" // 23.11 to 25.05
	V0042 = "v0.0.42" // 24.11 to 26.05
	V0045 = "v0.0.45" // 26.05 on
)

// dialects are all that the client speaks, newest first: the order of probing.
var dialects = []dialect{
	v0045{modern{V0045}}, v0042{modern{V0042}}, v0040{modern{V0040}}, v0038{},
}

// A dialect is one version of the API: what its records look like and how it wants
// to be asked. Dialects hold no state.
type dialect interface {
	version() string
	can() abilities

	jobs() table[Job]
	nodes() table[Node]
	partitions() table[Partition]

	since(time.Time) string // update_time of a list
	jobSubmit(JobSubmit) draft
	jobUpdate(u JobUpdate, now time.Time) draft
	nodeUpdate(NodeUpdate) draft
}

// seconds is an instant as most versions want it.
func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// utsSeconds is an instant where Slurm's parse_time reads it: to that, bare digits
// are a date like MMDDYY.
func utsSeconds(t time.Time) string { return "uts" + seconds(t) }

// body is a request's JSON object.
type body map[string]any

// draft is a body, or why the version cannot say what it should.
type draft struct {
	body body
	err  error
}

// abilities are what a version has and another lacks.
type abilities struct {
	lastUpdate bool // a list says when it was made, to be fed back
	signalTo   bool // a signal may go to the batch shell or the steps only
	signalSaid bool // a signal that no job got is an error
	updateTask bool // an update may name "12_3"
	arrayFalse bool // an update of an array that went well is reported as error 0
	updateNode bool
	requeue    bool
	reserve    bool // make and delete reservations
	// resComment: the releases that serve it have comments of reservations
	resComment bool
}

// put adds a member if the pointer is not nil.
func put[T any](b body, name string, value *T) {
	if value != nil {
		b[name] = *value
	}
}

// putText adds a member unless it is empty.
func putText(b body, name, value string) {
	if value != "" {
		b[name] = value
	}
}

// putCount adds a member unless it is 0.
func putCount(b body, name string, value int64) {
	if value != 0 {
		b[name] = value
	}
}

// earliest is what BeginTime asks for.
func earliest(begin, now time.Time) time.Time {
	if begin.Before(now) {
		return now
	}
	return begin
}

// tresText spells a TRES request in the neutral way: "gres:gpu:2" of releases
// before 23.11 is "gres/gpu:2" since.
func tresText(at func(*Job) *string) field[Job] {
	return func(s *scanner, j *Job) {
		text := s.text()
		if strings.Contains(text, "gres:") {
			text = strings.ReplaceAll(text, "gres:", "gres/")
		}
		*at(j) = text
	}
}
