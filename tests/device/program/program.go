// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package program reads the lines at the top of the C programs of tests/device: how to run each, and the expected
// output.
package program

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Program has the values of the lines at the top of a C file. Package device explains the words.
type Program struct {
	Devices  int
	Expect   []string
	Says     []string
	Misses   []string
	Exit     int
	Args     []string
	Env      []string
	Stdin    string
	Limit    time.Duration
	Cflags   []string
	Slow     string
	Broken   string
	Rung     string // that its processes reach on fewer devices
	Software string // why only software GPUs have its calls
}

// Parse reads the // lines of the form "word: text" before the first other line.
func Parse(source []byte) (*Program, error) {
	p := &Program{Devices: 1, Limit: 20 * time.Second}
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
			p.Devices, err = strconv.Atoi(text)
		case "expect":
			p.Expect = append(p.Expect, text)
		case "says":
			p.Says = append(p.Says, text)
		case "misses":
			p.Misses = append(p.Misses, text)
		case "exit":
			p.Exit, err = strconv.Atoi(text)
		case "args":
			p.Args = append(p.Args, strings.Fields(text)...)
		case "env":
			p.Env = append(p.Env, text)
		case "stdin":
			p.Stdin += text + "\n"
		case "limit":
			p.Limit, err = time.ParseDuration(text)
		case "cflags":
			p.Cflags = append(p.Cflags, strings.Fields(text)...)
		case "slow":
			p.Slow = text
		case "broken":
			p.Broken = text
		case "rung":
			p.Rung = text
		case "software":
			p.Software = text
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

// Judge returns how a run differs from the expectations, "" if there is no difference.
func (p *Program) Judge(stdout, stderr string, exit int) string {
	var wrong []string
	if exit != p.Exit {
		wrong = append(wrong, fmt.Sprintf("it ended with %d, not %d", exit, p.Exit))
	}
	if want := strings.Join(p.Expect, "\n") + "\n"; p.Expect != nil && stdout != want {
		wrong = append(wrong, fmt.Sprintf("it printed\n%s, not\n%s", stdout, want))
	}
	for _, s := range p.Says {
		if !strings.Contains(stderr, s) {
			wrong = append(wrong, fmt.Sprintf("it does not say %q", s))
		}
	}
	return strings.Join(wrong, "\n")
}
