// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package table

import "strings"

// suggestKey names the key that is nearest to an unknown name, or the command that lists all keys if no key is
// near.
func (t *Table[C]) suggestKey(name string) string {
	const tooFar = 3
	nearest, least := "", tooFar
	for _, k := range t.Keys {
		distance := EditDistance(name, k.Name)
		if _, key, ok := strings.Cut(k.Name, "."); ok && key == name {
			distance = 1 // the key is right, and outside of its section
		}
		if distance < least {
			nearest, least = k.Name, distance
		}
	}
	if nearest == "" {
		return "; `" + t.Daemon + " config` lists all"
	}
	return "; did you mean " + nearest + "?"
}

// EditDistance is the number of letters that must be inserted, deleted or replaced to turn a into
// b.
func EditDistance(a, b string) int {
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
