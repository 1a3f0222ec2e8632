// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"regexp"
	"strconv"
	"time"
)

// LeaseChange is a moment at which a job was lent GPUs, or left GPUs of a lease.
type LeaseChange struct {
	At   time.Time
	GPUs int // less than 0: the job left so many
}

// leaseText matches the text of an event about leases, as nodes write it.
var leaseText = regexp.MustCompile(`^job [0-9]+ (has lent|lends|takes back) ([0-9]{1,6}): [0-9]+ now$`)

// ParseLease reads the text of an event "GPUs" of a job's time line; is: the event is about a lease.
func ParseLease(text string) (gpus int, is bool) {
	found := leaseText.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	gpus, err := strconv.Atoi(found[2])
	if found[1] == "takes back" {
		gpus = -gpus
	}
	return gpus, err == nil
}

// AddLeases fills in Run.Leased. The changes are in the order of time. No lease outlives a run of its borrower.
func AddLeases(runs []Run, changes []LeaseChange) {
	for i := range runs {
		r := &runs[i]
		now := 0
		for _, c := range changes {
			if r.Began.IsZero() || c.At.Before(r.Began) || !r.Ended.IsZero() && c.At.After(r.Ended) {
				continue
			}
			now += c.GPUs
			r.Leased = max(r.Leased, now)
		}
	}
}
