// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts limits the names that one expression may stand for; Slurm has a limit as well.
const maxHosts = 1 << 16

// HostsOrNone returns the names that a host list stands for, as Hosts does; no names if the text is not a host
// list.
func HostsOrNone(expression string) []string {
	names, err := Hosts(expression)
	if err != nil {
		return nil
	}
	return names
}

// Hosts returns the names that a host list expression stands for, in its order: "a,n[01-03,7]x" is
// a, n01x, n02x, n03x, n7x. An expression with several brackets counts through the last bracket
// first. The error names the faulty part.
func Hosts(expression string) ([]string, error) {
	var names []string
	for _, part := range splitHosts(expression) {
		if part == "" {
			continue
		}
		more, err := expandHosts(part, maxHosts-len(names))
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", clipText(expression, 100), err)
		}
		names = append(names, more...)
	}
	return names, nil
}

// splitHosts splits at commas outside of brackets.
func splitHosts(expression string) []string {
	var parts []string
	depth, from := 0, 0
	for i, c := range expression {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, expression[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, expression[from:])
}

func expandHosts(part string, most int) ([]string, error) {
	head, rest, bracket := strings.Cut(part, "[")
	if !bracket {
		if strings.Contains(part, "]") || most < 1 {
			return nil, fmt.Errorf("%q: want names like n1 or n[1-3,5], at most %d", clipText(part, 40), maxHosts)
		}
		return []string{part}, nil
	}
	ranges, tail, closed := strings.Cut(rest, "]")
	if strings.Contains(head, "]") {
		return nil, fmt.Errorf("%q: the bracket is not opened", clipText(part, 40))
	}
	if !closed {
		return nil, fmt.Errorf("%q: the bracket is not closed", clipText(part, 40))
	}
	tails, err := expandHosts(tail, most)
	if err != nil {
		return nil, err
	}
	var names []string
	for item := range strings.SplitSeq(ranges, ",") {
		from, to, ranged := strings.Cut(item, "-")
		if !ranged {
			to = from
		}
		lo, err1 := parseDigits(from)
		hi, err2 := parseDigits(to)
		if err1 != nil || err2 != nil || hi < lo || (hi-lo+1)*int64(len(tails)) > int64(most-len(names)) {
			return nil, fmt.Errorf("%q: want a range like 1-3, of at most %d names in all", clipText(item, 40), maxHosts)
		}
		for n := lo; n <= hi; n++ {
			digits := strconv.FormatInt(n, 10)
			digits = strings.Repeat("0", max(len(from)-len(digits), 0)) + digits
			for _, t := range tails {
				names = append(names, head+digits+t)
			}
		}
	}
	return names, nil
}
