// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestTable: a short row leaves the columns of the rows around it alone.
func TestTable(t *testing.T) {
	var b strings.Builder
	printTable(&b, [][]string{{"A", "B", "C"}, {"1", "longer", "x"}, {"22", "NOT USABLE: a\treason\nthat is long"}, {"3", "ä", "yy"}, {"4"}})
	want := `
A   B       C
1   longer  x
22  NOT USABLE: a?reason that is long
3   ä       yy
4
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}
