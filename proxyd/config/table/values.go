// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Number returns a Key.Set for a number within bounds.
func Number[C any](field func(*C) *int, from, to int) func(*C, string) error {
	return func(c *C, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < from || n > to {
			return fmt.Errorf("a number from %d to %d", from, to)
		}
		*field(c) = n
		return nil
	}
}

// Text returns a Key.Set for a text that is empty or passes a check. accepted says in errors which texts do.
func Text[C any](field func(*C) *string, check func(string) bool, accepted string) func(*C, string) error {
	return func(c *C, value string) error {
		if value != "" && !check(value) {
			return errors.New(accepted)
		}
		*field(c) = value
		return nil
	}
}

// Bytes returns a Key.Set for a number of bytes.
func Bytes[C any](field func(*C) *uint64) func(*C, string) error {
	return func(c *C, value string) error {
		n, err := ParseBytes(value)
		if err != nil {
			return err
		}
		*field(c) = n
		return nil
	}
}

var sizeSyntax = regexp.MustCompile(`^([0-9]{1,12})([KMGT]?)i?B?$`)

// ParseBytes reads a number of bytes, such as 500M or 20GiB. Units are powers of 1024. The error is the accepted form.
func ParseBytes(s string) (uint64, error) {
	m := sizeSyntax.FindStringSubmatch(s)
	if m == nil {
		return 0, errors.New("a size as in 500M, 20G or 1T, or 0")
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		return 0, err
	}
	unit := uint64(1) << (10 * strings.Index(" KMGT", cmp.Or(m[2], " ")))
	if n > math.MaxInt64/unit {
		return 0, errors.New("a size below 8 EiB")
	}
	return n * unit, nil
}

// ErrDuration is the error of ParseDuration. Its text is the accepted form.
var ErrDuration = errors.New("a time as in 30s, 10m, 2h or 7d")

// ParseDuration reads a time such as 90s, 1h30m or 7d. It accepts the forms of time.ParseDuration, with whole days
// in front of them; "0" needs no unit. A negative time is refused.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		days, rest = "0", s
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, ErrDuration
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" && hasDays {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > math.MaxInt64-total {
		return 0, ErrDuration
	}
	return total + d, nil
}
