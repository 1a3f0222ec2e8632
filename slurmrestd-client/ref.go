// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"fmt"
	"strconv"
	"strings"
)

// maxJobID is Slurm's largest local job id (26 bits); a federation puts the
// cluster's number in the bits above.
const (
	maxJobID       = 1<<26 - 1
	federationBits = 26
	maxIndex       = 4_000_001 // of an array task, as slurm.conf's MaxArraySize allows
)

// Ref names a job, a task of an array or a component of a heterogeneous job, as
// Slurm's commands do: "12", "12_3", "12+1". The zero value names no job.
type Ref struct {
	ID    int64 // of the job, the array or the leader
	kind  byte  // 0, '_' or '+'
	Index int64 // of the task or component
}

// JobID names a job by its id. Every record has an id, array tasks included.
func JobID(id int64) Ref { return Ref{ID: id} }

// TaskOf names a task of an array.
func TaskOf(array, task int64) Ref { return Ref{ID: array, kind: '_', Index: task} }

// ComponentOf names a component of a heterogeneous job.
func ComponentOf(leader, offset int64) Ref { return Ref{ID: leader, kind: '+', Index: offset} }

// ParseRef reads the text that String writes. Its error names the faulty part.
func ParseRef(text string) (Ref, error) {
	bad := func(err string) (Ref, error) {
		return Ref{}, fmt.Errorf(`job %q: %s; want "12", "12_3" or "12+1"`, clipText(text, 40), err)
	}
	ref := Ref{}
	id, index := text, ""
	if at := strings.IndexAny(text, "_+"); at >= 0 {
		id, index, ref.kind = text[:at], text[at+1:], text[at]
	}
	var err error
	if ref.ID, err = parseDigits(id); err != nil {
		return bad("the id is not a number")
	}
	if ref.kind != 0 {
		if ref.Index, err = parseDigits(index); err != nil {
			return bad("the index is not a number")
		}
	}
	if err := ref.checkID(); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

func parseDigits(text string) (int64, error) {
	if strings.TrimLeft(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(text, 10, 64)
}

// String writes the reference in the form of Slurm's commands.
func (r Ref) String() string {
	if r.kind == 0 {
		return strconv.FormatInt(r.ID, 10)
	}
	return fmt.Sprintf("%d%c%d", r.ID, r.kind, r.Index)
}

// IsTask reports whether r names a task of an array.
func (r Ref) IsTask() bool { return r.kind == '_' }

// IsComponent reports whether r names a component of a heterogeneous job.
func (r Ref) IsComponent() bool { return r.kind == '+' }

// checkID refuses a reference that no cluster has, before any request.
func (r Ref) checkID() error {
	if r.ID < 1 || r.ID >= 1<<32-2 || r.Index < 0 || r.Index > maxIndex {
		return fmt.Errorf("job %s: %w", r, ErrInvalidJobID)
	}
	return nil
}

// Ref returns the reference that names this record and no other.
func (j *Job) Ref() Ref { return JobID(j.ID) }

// Label is the name by which people know the job: "812", "812_3" for a task of an array, "812+1"
// for a component of a heterogeneous job. Tasks that have not started share the array's number.
func (j *Job) Label() string {
	switch {
	case j.Array.JobID != 0 && j.Array.Task.Set:
		return TaskOf(j.Array.JobID, j.Array.Task.Value).String()
	case j.Het.JobID != 0:
		return ComponentOf(j.Het.JobID, j.Het.Offset).String()
	}
	return j.Ref().String()
}

// SplitFederatedID splits a job id into the number of the federation's cluster that
// made it and that cluster's own id. Outside a federation the number is 0.
func SplitFederatedID(id int64) (cluster, local int64) {
	return id >> federationBits, id & maxJobID
}

// namesJob reports whether the record is that of the job, task or component r.
func (r Ref) namesJob(j *Job) bool {
	switch r.kind {
	case '_':
		return j.Array.JobID == r.ID && j.Array.Task.Set && j.Array.Task.Value == r.Index
	case '+':
		return j.Het.JobID == r.ID && j.Het.Offset == r.Index
	}
	return j.ID == r.ID
}

// mayName reports whether r is a task without a record of its own for which the array's record
// stands.
func (r Ref) mayName(j *Job) bool {
	return r.kind == '_' && j.Array.JobID == r.ID && !j.Array.Task.Set &&
		inRanges(j.Array.Tasks, r.Index)
}

// inRanges reports whether n is in "1-5,9,11-21:2%4". A list that Slurm cut short
// ("1,3,...") is taken to hold every n.
func inRanges(ranges string, n int64) bool {
	ranges, _, _ = strings.Cut(ranges, "%")
	for item := range strings.SplitSeq(ranges, ",") {
		if strings.HasPrefix(item, "...") {
			return true
		}
		item, step, stepped := strings.Cut(item, ":")
		from, to, ranged := strings.Cut(item, "-")
		if !ranged {
			to = from
		}
		lo, err1 := parseDigits(from)
		hi, err2 := parseDigits(to)
		if err1 != nil || err2 != nil || n < lo || n > hi {
			continue
		}
		if by, err := parseDigits(step); !stepped || err == nil && by > 0 && (n-lo)%by == 0 {
			return true
		}
	}
	return false
}
