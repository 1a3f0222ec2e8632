// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// meant proposes the key that an unknown name is nearest to, or nothing if none is near.
func meant(name string) string {
	best, least := "", 3
	for _, k := range keys {
		d := distance(name, k.name)
		if _, last, ok := strings.Cut(k.name, "."); ok && last == name {
			d = 1 // right, but outside of its section
		}
		if d < least {
			best, least = k.name, d
		}
	}
	if best == "" {
		return "; `preemptd config` lists all"
	}
	return "; did you mean " + best + "?"
}

// distance is how many letters must be put in, taken out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
