// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestInterpreter: the interpreters themselves name the line of an error, and do not run the script.
func TestInterpreter(t *testing.T) {
	const touch = "touch \"$0.ran\"\n"
	for _, c := range []struct{ first, rest, want string }{
		{"#!/bin/bash", touch + "if true\nfi\n", "4"},
		{"#!/usr/bin/env bash", touch + "echo ${\n", "3"},
		{"#!/bin/sh", touch + "case\n)\n", "4"},
		{"#! /bin/bash -l", touch + "done\n", "3"},
		{"#!/usr/bin/env python3", "open(__file__ + '.ran', 'w')\nif True\n\tpass\n", "3"},
		{"#!/bin/bash", touch + "echo fine\n", ""},
		{"#!/tmp/bash", touch + "done\n", "none"},
		{"#!bash", touch + "done\n", "none"},
		{"#!/usr/bin/env ./bash", touch + "done\n", "none"},
		{"#!/usr/bin/perl", "open(F, '>', \"$0.ran\"); (\n", "none"},
	} {
		path := filepath.Join(t.TempDir(), "job.sh")
		text := c.first + "\n" + c.rest
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		program, arguments, ok := Interpreter(text)
		if !ok {
			if c.want != "none" {
				t.Errorf("%s: no interpreter", c.first)
			}
			continue
		}
		if c.want == "none" {
			t.Errorf("Interpreter of %s = %s, want none", c.first, program)
			continue
		}
		said, err := exec.Command(program, append(arguments, path)...).CombinedOutput()
		if _, ran := os.Stat(path + ".ran"); ran == nil {
			t.Errorf("%s: was run", c.first)
		}
		if f := ReadSyntaxError(path, string(said)); err != nil && (fmt.Sprint(f.Line) != c.want || f.What == "" || f.Level != Refused) {
			t.Errorf("%s: %+v, want line %s; said:\n%s", c.first, f, c.want, said)
		}
		if (err != nil) != (c.want != "") {
			t.Errorf("syntax check of %s: %v\n%s", c.first, err, said)
		}
	}
}

func TestReadSyntaxError(t *testing.T) {
	f := ReadSyntaxError("job.py", "  File \"<string>\", line 1, in <module>\n  File \"job.py\", line 3\n    if True\n           ^\nSyntaxError: expected ':'\n")
	if f.Line != 3 || f.What != "SyntaxError: expected ':'" {
		t.Errorf("ReadSyntaxError = %+v", f)
	}
}

func TestReadRefusal(t *testing.T) {
	const text = "#!/bin/sh\n#SBATCH --singularity\n#SBATCH --singularity-gpus=4-2 -N2\n"
	for _, c := range []struct {
		said, what string
		line       int
	}{
		{"sbatch: error: singularity: --singularity-gpus=4-2: the minimum is above the maximum; accepted: MIN\n", "--singularity-gpus=4-2: the minimum is above the maximum; accepted: MIN", 3},
		{"error: Invalid --nodes\nsbatch: error: More\n", "Invalid --nodes", 0},
		{"sbatch: error: This does not look like a batch script.  The first\nsbatch: error: line must start with #!.\nsbatch: error: For instance: #!/bin/sh\n",
			"This does not look like a batch script. The first line must start with #!.", 0},
		{"allocation failure: Requested node configuration is not available", "allocation failure: Requested node configuration is not available", 0},
		{"sbatch: warning of something\nsbatch: error: Bad --x", "Bad --x", 0},
	} {
		if f := ReadRefusal(text, c.said); f.What != c.what || f.Line != c.line {
			t.Errorf("ReadRefusal(%q) = %+v", c.said, f)
		}
	}
	// Slurm's own refusals name no option.
	const asks = "#!/bin/sh\n#SBATCH --singularity -pnosuch\n#SBATCH -q foo\n#SBATCH --account=a --account=nope\n#SBATCH --time 5-0\n#SBATCH --gres=gpu:x:1\ntrue\n#SBATCH -q late\n"
	for said, line := range map[string]int{
		"sbatch: error: invalid partition specified: nosuch\nallocation failure: Invalid partition name specified\n": 2,
		"allocation failure: Invalid qos specification":                                                              3,
		"allocation failure: Invalid account or account/partition combination specified":                             4,
		"allocation failure: Requested time limit is invalid (missing or exceeds some limit)":                        5,
		"allocation failure: Invalid generic resource (gres) specification":                                          6,
		"allocation failure: Invalid feature specification":                                                          0,
		"allocation failure: Requested node configuration is not available":                                          0,
	} {
		if f := ReadRefusal(asks, said); f.Line != line {
			t.Errorf("%q: line %d, want %d", said, f.Line, line)
		}
	}
}
