// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"fmt"
	"strconv"
	"time"
)

// Number is a count of Slurm's that may be unset or without bound. v0.0.38 writes an integer or
// null, later versions {"set","infinite","number"}; both read the same here. The zero value is
// unset.
type Number struct {
	Value    int64 // 0 unless Set and not Infinite
	Set      bool  // false: Slurm has no value here
	Infinite bool  // without bound; implies Set
}

// Num returns a Number that is set to n.
func Num(n int64) Number { return Number{Value: n, Set: true} }

// Or returns the value, or otherwise when the Number is unset or infinite.
func (n Number) Or(otherwise int64) int64 {
	if !n.Set || n.Infinite {
		return otherwise
	}
	return n.Value
}

// String returns the digits, "infinite", or "unset".
func (n Number) String() string {
	switch {
	case !n.Set:
		return "unset"
	case n.Infinite:
		return "infinite"
	}
	return strconv.FormatInt(n.Value, 10)
}

// Limit is a limit on time. Slurm counts most limits in minutes and some in seconds; a Limit is a
// Duration, so its unit cannot be mistaken. The zero value is unset: Slurm's default applies.
type Limit struct {
	Duration time.Duration // 0 unless Set and not Infinite
	Set      bool
	Infinite bool // no limit; implies Set
}

// LimitOf returns a Limit of d.
func LimitOf(d time.Duration) Limit { return Limit{Duration: d, Set: true} }

// Unlimited returns the Limit that never ends.
func Unlimited() Limit { return Limit{Set: true, Infinite: true} }

// String returns the duration, "unlimited", or "unset".
func (l Limit) String() string {
	switch {
	case !l.Set:
		return "unset"
	case l.Infinite:
		return "unlimited"
	}
	return l.Duration.String()
}

// wholeMinutes returns the limit in the form of Slurm's requests: whole minutes, rounded up, so that a
// job never gets less than was asked for.
func (l Limit) wholeMinutes() int64 {
	return int64((l.Duration + time.Minute - 1) / time.Minute)
}

// checkRange refuses a limit of 0 or less: Slurm has no such limits.
func (l Limit) checkRange(name string) error {
	if l.Set && !l.Infinite && l.Duration <= 0 {
		return fmt.Errorf("%s: %s is not a limit; want more than 0", name, l.Duration)
	}
	return nil
}

// limitOf reads a number that counts units.
func limitOf(n Number, unit time.Duration) Limit {
	return Limit{Duration: time.Duration(n.Value) * unit, Set: n.Set, Infinite: n.Infinite}
}

// instantOf reads seconds since 1970. Slurm means "never" by 0, by unset and by
// infinite; all are the zero Time here.
func instantOf(n Number) time.Time {
	if !n.Set || n.Infinite || n.Value <= 0 {
		return time.Time{}
	}
	return time.Unix(n.Value, 0)
}
