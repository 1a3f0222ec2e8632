// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestParseMoment: the time of policy test --at is read in local time unless the time names its zone, and a time that
// cannot be read is refused with the accepted forms.
func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("test", 2*60*60)
	now := time.Date(2026, 3, 5, 9, 10, 11, 12, zone)
	for text, want := range map[string]time.Time{
		"22:30":                     time.Date(2026, 3, 5, 22, 30, 0, 0, zone),
		"00:00":                     time.Date(2026, 3, 5, 0, 0, 0, 0, zone),
		"2026-03-07":                time.Date(2026, 3, 7, 0, 0, 0, 0, zone),
		"2026-03-07 22:30":          time.Date(2026, 3, 7, 22, 30, 0, 0, zone),
		"2026-03-07 22:30:15":       time.Date(2026, 3, 7, 22, 30, 15, 0, zone),
		"2026-03-07T22:30:00Z":      time.Date(2026, 3, 7, 22, 30, 0, 0, time.UTC),
		"2026-03-07T22:30:00-05:00": time.Date(2026, 3, 8, 3, 30, 0, 0, time.UTC),
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is read as %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"nonsense", "25:00", "22:60", "22", "2026-02-30", "2026-13-01 10:00", "2026-03-07T22:30", "22:30 tomorrow", " "} {
		got, err := parseMoment(text, now)
		if !errors.Is(err, rpc.ErrInvalid) || !strings.Contains(err.Error(), "--at "+text+": want 22:30, 2026-03-07 22:30 or ") {
			t.Errorf("%q is read as %v, %v; want a refusal with the accepted forms", text, got, err)
		}
	}
}
