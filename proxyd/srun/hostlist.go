// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxNodes bounds what a hostlist may stand for, as Slurm itself does.
const maxNodes = 64 << 10

var errHostlist = errors.New("not a hostlist")

// expand returns the names that a hostlist like "a,n[1-3,5]" stands for, in its order.
func expand(list string) ([]string, error) {
	var all []string
	for _, part := range splitList(list) {
		names, err := expandOne(part, maxNodes-len(all))
		if err != nil {
			return nil, fmt.Errorf("%.200q: %w", list, err)
		}
		all = append(all, names...)
	}
	return all, nil
}

// splitList splits at the commas, white space and semicolons that are not in brackets.
func splitList(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		case ',', ';', ' ', '\t', '\n':
			return depth <= 0
		}
		return false
	})
}

// expandOne expands a name with any number of brackets, the last of which counts fastest.
func expandOne(part string, limit int) ([]string, error) {
	names := []string{""}
	for part != "" {
		before, after, found := strings.Cut(part, "[")
		if strings.ContainsRune(before, ']') {
			return nil, errHostlist
		}
		var middle []string
		part = ""
		if found {
			ranges, rest, closed := strings.Cut(after, "]")
			if !closed {
				return nil, errHostlist
			}
			var err error
			if middle, err = expandRanges(ranges, limit); err != nil {
				return nil, err
			}
			part = rest
		} else {
			middle = []string{""}
		}
		if len(names)*len(middle) > limit {
			return nil, fmt.Errorf("%w: more than %d names", errHostlist, maxNodes)
		}
		next := make([]string, 0, len(names)*len(middle))
		for _, n := range names {
			for _, m := range middle {
				next = append(next, n+before+m)
			}
		}
		names = next
	}
	return names, nil
}

func expandRanges(ranges string, limit int) ([]string, error) {
	var all []string
	for r := range strings.SplitSeq(ranges, ",") {
		low, high, found := strings.Cut(r, "-")
		if !found {
			high = low
		}
		from, err1 := strconv.ParseUint(low, 10, 32)
		to, err2 := strconv.ParseUint(high, 10, 32)
		if err1 != nil || err2 != nil || to < from {
			return nil, errHostlist
		}
		if to-from >= uint64(limit-len(all)) {
			return nil, fmt.Errorf("%w: more than %d names", errHostlist, maxNodes)
		}
		for n := from; n <= to; n++ {
			all = append(all, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return all, nil
}

// translate replaces the names of a hostlist. Where nothing changes, and for what is no
// hostlist, it returns list itself. Unless again is set, a name comes once: two
// nodes of the first start may be one today.
func translate(list string, nodes map[string]string, again bool) string {
	names, err := expand(list)
	if err != nil {
		return list
	}
	var today []string
	changed := false
	for _, name := range names {
		if now, ok := nodes[name]; ok && now != name {
			name, changed = now, true
		}
		if again || !slices.Contains(today, name) {
			today = append(today, name)
		}
	}
	if !changed {
		return list
	}
	return strings.Join(today, ",")
}

// translateFile does the same to a file of nodes, which has a hostlist in each line,
// perhaps with "*COUNT" behind it, and comments after "#".
func translateFile(b []byte, nodes map[string]string) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		text, _, _ := strings.Cut(line, "#")
		for i, list := range splitList(strings.TrimSpace(text)) {
			if i > 0 {
				out.WriteByte(',')
			}
			name, count, times := strings.Cut(list, "*")
			out.WriteString(translate(name, nodes, true))
			if times {
				out.WriteString("*" + count)
			}
		}
		out.WriteByte('\n')
	}
	return []byte(out.String())
}
