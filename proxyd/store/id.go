// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// None is an array task or het component that a job does not have.
const None = -1

// JobID names a job across clusters.
type JobID struct {
	Cluster   string `json:"cluster"`
	Job       uint32 `json:"job"`
	ArrayTask int    `json:"array_task"` // None if not an array
	Component int    `json:"component"`  // None if not a heterogeneous job
}

// PlainJob returns the ID of a job that is named by its number alone: no task of an array, and no component.
func PlainJob(cluster string, job uint32) JobID {
	return JobID{Cluster: cluster, Job: job, ArrayTask: None, Component: None}
}

// ID names a checkpoint: the Number-th of a job, and the ID that Commit returns.
type ID struct {
	JobID
	Number uint32 `json:"number"`
}

// String returns "mini/812", "mini/812_3", "mini/812+1" or "mini/812_3+1", which is also the
// checkpoint's place below manifests/.
func (j JobID) String() string {
	s := j.Cluster + "/" + strconv.FormatUint(uint64(j.Job), 10)
	if j.ArrayTask != None {
		s += "_" + strconv.Itoa(j.ArrayTask)
	}
	if j.Component != None {
		s += "+" + strconv.Itoa(j.Component)
	}
	return s
}

// String returns "mini/812/3".
func (id ID) String() string {
	return id.JobID.String() + "/" + strconv.FormatUint(uint64(id.Number), 10)
}

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	idSyntax    = regexp.MustCompile(`^([^/]+)/([0-9]+)(_[0-9]+)?(\+[0-9]+)?/([0-9]+)$`)
)

func (j JobID) checkName() error {
	switch {
	case !clusterName.MatchString(j.Cluster):
		return fmt.Errorf("cluster %.80q: want letters, digits, _ . -, at most 64", j.Cluster)
	case j.ArrayTask < None, j.Component < None:
		return fmt.Errorf("job %s: negative array task or component", j)
	}
	return nil
}

// ParseID is the inverse of ID.String; ParseID accepts no other spelling.
func ParseID(s string) (ID, error) {
	m := idSyntax.FindStringSubmatch(s)
	if m == nil {
		return ID{}, fmt.Errorf("checkpoint %.120q: want CLUSTER/JOB[_TASK][+COMPONENT]/NUMBER", s)
	}
	job, err1 := strconv.ParseUint(m[2], 10, 32)
	number, err2 := strconv.ParseUint(m[5], 10, 32)
	task, err3 := parseOptional(m[3])
	component, err4 := parseOptional(m[4])
	id := ID{JobID{m[1], uint32(job), task, component}, uint32(number)}
	for _, err := range []error{err1, err2, err3, err4, id.checkName()} {
		if err != nil {
			return ID{}, fmt.Errorf("checkpoint %.120q: %w", s, err)
		}
	}
	if id.String() != s {
		return ID{}, fmt.Errorf("checkpoint %.120q: write %s", s, id)
	}
	return id, nil
}

// parseOptional parses "_3" or "+1"; an empty string is None.
func parseOptional(s string) (int, error) {
	if s == "" {
		return None, nil
	}
	n, err := strconv.ParseUint(s[1:], 10, 31)
	return int(n), err
}

// StreamID names a stream of a checkpoint.
type StreamID struct {
	Node string `json:"node"` // logical node of the job: host name at its first start
	Rank int    `json:"rank"` // None for a stream that belongs to the node as a whole
	Name string `json:"name"` // slash-separated: "812.0/pages-1.img"
}

// String returns "n1/3/pages-1.img", or "n1/node/…" where there is no rank, which is also the
// stream's place in an export.
func (s StreamID) String() string {
	rank := "node"
	if s.Rank != None {
		rank = strconv.Itoa(s.Rank)
	}
	return s.Node + "/" + rank + "/" + s.Name
}

// maxName bounds a stream's name, so that the manifest has room for all names.
const maxName = 1024

func (s StreamID) checkName() error {
	if !clusterName.MatchString(s.Node) || s.Rank < None || len(s.Name) > maxName {
		return fmt.Errorf("stream %.120q: bad node, rank or length", s.String())
	}
	for part := range strings.SplitSeq(s.Name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 255 || strings.ContainsRune(part, 0) {
			return fmt.Errorf("stream %.120q: bad name", s.String())
		}
	}
	return nil
}
