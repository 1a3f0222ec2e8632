// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"strings"
	"time"
)

// Exchange is a request and its result, for callers that count.
type Exchange struct {
	Method string
	// Endpoint is the kind of thing that was asked about: "jobs", "job", "slurmdb/qos". It contains
	// no names and numbers, so there are few endpoints.
	Endpoint string
	Took     time.Duration // until the whole answer was read
	// Err is the error of the answer, or the reason why no answer came. ErrNoChange means a good
	// answer, as nil does.
	Err error
}

// endpointOf returns the part of a path that is the same for all jobs, nodes and so on.
func endpointOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/") // "slurm", version, kind, …
	if len(parts) < 3 {
		return parts[0]
	}
	if parts[0] == "slurm" {
		return parts[2]
	}
	return parts[0] + "/" + parts[2]
}
