// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"reflect"
	"testing"
	"time"
)

func TestParseProgram(t *testing.T) {
	p, err := Parse([]byte(`// SPDX-License-Identifier: Apache-2.0

// devices: 2
// expect: a: b
// expect:
// says: no such thing
// misses: cuX: why
// exit: 3
// env: A=B C
// args: --x 1
// limit: 1m
// software: no such arrays
// What follows is said to people: not to us.
#include <cuda.h>
// exit: 4
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Program{
		Devices: 2, Expect: []string{"a: b", ""}, Says: []string{"no such thing"}, Misses: []string{"cuX: why"}, Exit: 3,
		Args: []string{"--x", "1"}, Env: []string{"A=B C"}, Limit: time.Minute, Software: "no such arrays",
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, bad := range []string{"// devices: two\n", "// expects: x\n", "// limit: 3\n"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%q) succeeded, want an error", bad)
		}
	}
}
