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

// TestLocks finds each package below proxyd/checkpoint, and each lock of a type there, in the comment of package
// checkpoint, and the types of the locks that the comment names in the code.
func TestLocks(t *testing.T) {
	folder := filepath.Join(root, "proxyd/checkpoint")
	comment, err := os.ReadFile(filepath.Join(folder, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	locks := 0
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != folder && entry.Name() != "testdata" && !strings.Contains(string(comment), "\n//\t"+entry.Name()+" ") {
				t.Errorf("proxyd/checkpoint/doc.go does not name the package %s", entry.Name())
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		for _, lock := range listLocks(string(text)) {
			locks++
			if !regexp.MustCompile(`[\t ]` + regexp.QuoteMeta(lock) + ` `).Match(comment) {
				t.Errorf("proxyd/checkpoint/doc.go, Locks: no line of %s, which %s has", lock, strings.TrimPrefix(path, root+"/"))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if locks < 20 {
		t.Errorf("only %d locks are found", locks)
	}
	_, named, _ := strings.Cut(string(comment), "\n// # Locks\n")
	for _, found := range regexp.MustCompile(`(?m)^//\t[└├─ ]*(\w+)\.(\w+)  `).FindAllStringSubmatch(named, -1) {
		if !strings.Contains(code.String(), "\ntype "+found[1]) || !regexp.MustCompile(`\b`+found[2]+` +sync\.`).MatchString(code.String()) {
			t.Errorf("proxyd/checkpoint/doc.go, Locks: there is no %s.%s", found[1], found[2])
		}
	}
}

var (
	structType  = regexp.MustCompile(`(?ms)^type (\w+)(?:\[[^\n]*\])? struct (?:\{ ([^\n]*) \}$|\{\n(.*?)^\}$)`)
	structMutex = regexp.MustCompile(`(?m)^\t?(\w+) +sync\.(?:RW)?Mutex\b`)
)

// listLocks returns the locks among the fields of a source's types: "Type.field".
func listLocks(source string) []string {
	var locks []string
	for _, found := range structType.FindAllStringSubmatch(source, -1) {
		for _, field := range structMutex.FindAllStringSubmatch(found[2]+found[3], -1) {
			locks = append(locks, found[1]+"."+field[1])
		}
	}
	return locks
}
