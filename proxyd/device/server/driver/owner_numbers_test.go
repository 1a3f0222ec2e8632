// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestOwnerNumbers: capsules take places of their own, each in a process of its own, as long as each makes no more than twelve
// spaces and there are 64 capsules.
func TestOwnerNumbers(t *testing.T) {
	users := map[uint64]int{}
	for capsule := range 64 {
		var o OwnerNumbers
		for range ownerStride {
			number := o.TakeNumber(1, capsule)
			if number == 0 || number >= backend.OwnerPlaces {
				t.Errorf("capsule %d: number %d", capsule, number)
			}
			if other, taken := users[number]; taken {
				t.Errorf("capsules %d and %d both have number %d", other, capsule, number)
			}
			users[number] = capsule
		}
	}
}

// TestAllOwnerNumbers: the spaces of a process have places of their own until there are no more, whichever ended meanwhile. A
// place that a space has left is used again only then.
func TestAllOwnerNumbers(t *testing.T) {
	var o OwnerNumbers
	seen := map[uint64]bool{}
	for i := range backend.OwnerPlaces - 1 {
		n := o.TakeNumber(uint64(1+i%3), 1+i%3)
		if n%backend.OwnerPlaces == 0 || seen[n] {
			t.Fatalf("space %d has number %d, which another has, or the process itself", i, n)
		}
		if seen[n] = true; i%2 == 0 {
			o.ReleaseNumber(n)
		}
	}
	again := o.TakeNumber(1, 1)
	if !seen[again] {
		t.Errorf("number %d is of no space that was there", again)
	}
	for range backend.OwnerPlaces {
		n := o.TakeNumber(1, 1)
		if n >= backend.OwnerPlaces && seen[n] || n%backend.OwnerPlaces == 0 {
			t.Fatalf("number %d a second time", n)
		}
		seen[n] = true
	}
}

// TestClaimNumber: a space that comes back has its number, unless a space of another server has the place.
func TestClaimNumber(t *testing.T) {
	var o OwnerNumbers
	number := o.TakeNumber(1, 0)
	for _, c := range []struct {
		group, number uint64
		fine          bool
	}{
		{1, number, true}, // as in saves in which places had been used up
		{2, number, false},
		{2, number + backend.OwnerPlaces, false},
		{2, number + 1, true},
		{3, 0, false},
		{3, 1 << 63, false},
		{3, ^uint64(0), false}, // driver.Rehearsal of the real devices
	} {
		if err := o.ClaimNumber(c.group, c.number); (err == nil) != c.fine || err != nil && !errors.Is(err, ErrRestore) {
			t.Errorf("number %d for server %d: %v", c.number, c.group, err)
		}
	}
	o.ReleaseNumber(number)
	if err := o.ClaimNumber(2, number); err == nil {
		t.Error("a place was given to a second server while the first still has a space there")
	}
	o.ReleaseNumber(number)
	if err := o.ClaimNumber(2, number); err != nil {
		t.Errorf("a place that all spaces have left: %v", err)
	}
}
