// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package gputime has the GPU time of days, which package metrics counts; the web page shows how much of the time was
// useful.
package gputime

import "github.com/singularity-slurm/singularity-slurm/policies/sdk"

// Time is GPU time that jobs held, in seconds, and the part of that time that was lost to them.
type Time struct{ Held, Lost float64 }

// Add returns the sum of two times.
func (t Time) Add(other Time) Time { return Time{t.Held + other.Held, t.Lost + other.Lost} }

// Day is the GPU time of a day, in the time zone of this host.
type Day struct {
	Date  string // "2026-11-23"
	Tiers [sdk.Tiers]Time
	Users map[string]Time
}
