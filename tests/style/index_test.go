// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// indexedErrors are the errors that an administrator meets in logs and answers, by their files: install.md has a row of
// each in "You see … → do …". A file without names: all errors of the file.
var indexedErrors = map[string][]string{
	"proxyd/shared/shared.go":             nil,
	"proxyd/shared/store_mark.go":         nil,
	"proxyd/shared/watch.go":              nil,
	"proxyd/host/slurm.go":                {"ErrNoScontrol"},
	"proxyd/rpc/munge/program.go":         {"ErrRefused", "ErrNoMunge"},
	"proxyd/rpc/errors.go":                {"ErrUnreachable"},
	"proxyd/checkpoint/calls/messages.go": {"ErrUnknown"},
}

var (
	sentinel   = regexp.MustCompile(`(?m)^(?:var |\t)(Err\w+) += errors\.New\("([^"]+)"\)`)
	backquoted = regexp.MustCompile("`([^`]+)`")
	ourDaemon  = regexp.MustCompile(`^\| (?:proxyd|preemptd|relay)[:,] `)
)

// TestIndex compares the table "You see … → do …" with what the daemons say: each of indexedErrors has a row, and what a
// row of a daemon quotes is in the code.
func TestIndex(t *testing.T) {
	_, index, found := strings.Cut(readPages(t)["docs/install.md"], "\n## You see … → do …\n")
	index, _, _ = strings.Cut(index, "\n## ")
	if !found {
		t.Fatal("docs/install.md has no section You see … → do …")
	}
	for file, names := range indexedErrors {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for _, found := range sentinel.FindAllStringSubmatch(string(source), -1) {
			texts[found[1]] = found[2]
			if names == nil && !isQuoted(index, found[2]) {
				t.Errorf("docs/install.md has no row for %q (%s of %s)", found[2], found[1], file)
			}
		}
		for _, name := range names {
			if text := texts[name]; text == "" || !isQuoted(index, text) {
				t.Errorf("docs/install.md has no row for %q (%s of %s)", text, name, file)
			}
		}
	}
	code, rows := readDaemons(t), 0
	for line := range strings.Lines(index) {
		if !ourDaemon.MatchString(line) {
			continue
		}
		rows++
		seen, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, quoted := range backquoted.FindAllStringSubmatch(seen, -1) {
			if !strings.Contains(code, quoted[1]) && !strings.HasPrefix(quoted[1], "systemctl ") {
				t.Errorf("docs/install.md has a row for %q, which no daemon says", quoted[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("only %d rows are about messages of the daemons", rows)
	}
}

// isQuoted tells whether a row quotes the beginning of a text, of four words or more, or the whole of a shorter text.
func isQuoted(index, text string) bool {
	for _, quoted := range backquoted.FindAllStringSubmatch(index, -1) {
		if text == quoted[1] || strings.HasPrefix(text, quoted[1]) && len(strings.Fields(quoted[1])) >= 4 {
			return true
		}
	}
	return false
}

// readDaemons returns the Go code of the daemons, without tests.
func readDaemons(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, folder := range []string{"proxyd", "preemptd"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}
