// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program is what the top of a C file says about it.
type program struct {
	devices int
	expect  []string
	says    []string
	exit    int
	args    []string
	env     []string
	stdin   string
	limit   time.Duration
	cflags  []string
	slow    string
	broken  string
}

// parseProgram reads the // lines of the form "word: text" before the first other line.
func parseProgram(source []byte) (*program, error) {
	p := &program{devices: 1, limit: 20 * time.Second}
	lines := bufio.NewScanner(bytes.NewReader(source))
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			continue
		}
		comment, ok := strings.CutPrefix(line, "//")
		if !ok {
			break
		}
		word, text, ok := strings.Cut(strings.TrimPrefix(comment, " "), ":")
		if !ok {
			continue
		}
		text = strings.TrimPrefix(text, " ")
		var err error
		switch word {
		case "devices":
			p.devices, err = strconv.Atoi(text)
		case "expect":
			p.expect = append(p.expect, text)
		case "says":
			p.says = append(p.says, text)
		case "exit":
			p.exit, err = strconv.Atoi(text)
		case "args":
			p.args = append(p.args, strings.Fields(text)...)
		case "env":
			p.env = append(p.env, text)
		case "stdin":
			p.stdin += text + "\n"
		case "limit":
			p.limit, err = time.ParseDuration(text)
		case "cflags":
			p.cflags = append(p.cflags, strings.Fields(text)...)
		case "slow":
			p.slow = text
		case "broken":
			p.broken = text
		case "SPDX-FileCopyrightText", "SPDX-License-Identifier":
		default:
			if !strings.Contains(word, " ") {
				err = errors.New("unknown word")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	return p, lines.Err()
}

func TestParseProgram(t *testing.T) {
	p, err := parseProgram([]byte(`// SPDX-License-Identifier: Apache-2.0

// devices: 2
// expect: a: b
// expect:
// says: no such thing
// exit: 3
// env: A=B C
// args: --x 1
// limit: 1m
// What follows is said to people: not to us.
#include <cuda.h>
// exit: 4
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &program{
		devices: 2, expect: []string{"a: b", ""}, says: []string{"no such thing"}, exit: 3,
		args: []string{"--x", "1"}, env: []string{"A=B C"}, limit: time.Minute,
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, bad := range []string{"// devices: two\n", "// expects: x\n", "// limit: 3\n"} {
		if _, err := parseProgram([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
