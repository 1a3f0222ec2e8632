// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Interpreter returns the program that runs a script, by its first line, and the arguments by which that program
// looks at the script's syntax without running it; the script's path is to follow. ok is false for a program of which
// no such arguments are known, and for a path outside of the system's folders: the script may be a stranger's, and
// the program with it.
func Interpreter(text string) (program string, arguments []string, ok bool) {
	first, _, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(strings.TrimSuffix(first, "\r"), "#!")
	words := strings.Fields(line)
	if !ok || len(words) == 0 || !slices.Contains(systemFolders, path.Dir(words[0])) {
		return "", nil, false
	}
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = words[1:]
		if strings.Contains(words[0], "/") {
			return "", nil, false
		}
	}
	switch name := path.Base(words[0]); {
	case slices.Contains([]string{"sh", "bash", "dash", "ksh", "ksh93", "mksh", "zsh", "csh", "tcsh"}, name):
		return words[0], []string{"-n"}, true
	case strings.HasPrefix(name, "python"):
		return words[0], []string{"-I", "-c", "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"}, true
	}
	return "", nil, false
}

// systemFolders are folders of programs that are root's.
var systemFolders = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// lineNumber is where interpreters write the line of an error: "line 5", and dash "FILE: 5: ".
var lineNumber = regexp.MustCompile(`\bline (\d+)|: (\d+): `)

// ReadSyntaxError makes a finding of an interpreter's message about a script's syntax. name is the script's path.
func ReadSyntaxError(name, said string) Finding {
	f := Finding{Level: Refused, Do: "correct it: the job would end there"}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		m := lineNumber.FindStringSubmatchIndex(line)
		if m != nil && f.Line == 0 && strings.Contains(line, name) {
			number := line[m[0]:m[1]]
			f.Line, _ = strconv.Atoi(strings.Trim(number, "line: "))
			f.What = strings.TrimLeft(line[m[1]:], ": ")
		}
		// Python has the error in the last line, and the place in an earlier line.
		if f.What == "" || strings.Contains(line, "SyntaxError:") || strings.Contains(line, "IndentationError:") {
			f.What = line
		}
	}
	return f
}

// ReadRefusal makes a finding of sbatch's message about a script that it refuses: the first error, at the line of the
// option that the error names.
func ReadRefusal(text, said string) Finding {
	f := Finding{Level: Refused, Do: "correct it: sbatch refuses the job"}
	began := false
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "sbatch: "))
		reason, isError := strings.CutPrefix(line, "error: ")
		if began {
			// A sentence of sbatch goes on in the next line, which then begins with a small letter.
			if !isError || reason == "" || reason[0] < 'a' || reason[0] > 'z' {
				break
			}
			f.What = strings.Join(strings.Fields(f.What+" "+reason), " ")
			continue
		}
		if f.What == "" || isError {
			f.What = strings.TrimPrefix(reason, "singularity: ")
		}
		began = isError
	}
	f.Line = lineOfRefusal(text, f.What)
	return f
}

// refusedOptions are words in Slurm's refusals, which name no option, and the options that they are about.
var refusedOptions = []struct {
	word    *regexp.Regexp
	options []string
}{
	{regexp.MustCompile(`(?i)\baccount`), []string{"--account", "-A"}},
	{regexp.MustCompile(`(?i)\bpartition`), []string{"--partition", "-p"}},
	{regexp.MustCompile(`(?i)\bqos\b`), []string{"--qos", "-q"}},
	{regexp.MustCompile(`(?i)\b(feature|constraint)`), []string{"--constraint", "-C"}},
	{regexp.MustCompile(`(?i)\breservation`), []string{"--reservation"}},
	{regexp.MustCompile(`(?i)\blicense`), []string{"--licenses", "-L"}},
	{regexp.MustCompile(`(?i)\bdependency`), []string{"--dependency", "-d"}},
	{regexp.MustCompile(`(?i)\btime limit`), []string{"--time", "-t"}},
	{regexp.MustCompile(`(?i)\b(gres|tres)\b`), []string{"--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"}},
	{regexp.MustCompile(`(?i)\bnode name`), []string{"--nodelist", "-w", "--exclude", "-x"}},
}

// lineOfRefusal returns the line of the option that a refusal names or is about; 0: the script has no such line.
func lineOfRefusal(text, what string) int {
	options, _ := parseScript(text)
	for _, o := range slices.Backward(options) {
		if strings.HasPrefix(o.name, "--") && strings.Contains(what, o.name+"="+o.value) {
			return o.line
		}
	}
	for _, refused := range refusedOptions {
		if !refused.word.MatchString(what) {
			continue
		}
		for _, o := range slices.Backward(options) { // the last of several counts
			if slices.Contains(refused.options, o.name) {
				return o.line
			}
		}
	}
	return 0
}
