// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTree finds each package in the folder tree of docs/architecture.md, and each folder of the tree on disk. Helpers of
// tests, with names that end in "test", may be missing, and packages of tests only.
func TestTree(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(text), "\n```\n")
	tree, _, _ = strings.Cut(tree, "\n```\n")
	placed, named := parseTree(tree)
	for folder := range placed {
		if info, err := os.Stat(filepath.Join(root, folder)); err != nil || !info.IsDir() {
			t.Errorf("docs/architecture.md, the folder tree: there is no folder %s", folder)
		}
	}
	cmd := exec.Command("go", "list", "-f", "{{if or .GoFiles .CgoFiles}}{{.ImportPath}}{{end}}", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 150 {
		t.Errorf("only %d packages are listed", len(packages))
	}
	for _, path := range packages {
		folder := strings.TrimPrefix(path, module)
		if !strings.HasSuffix(folder, "test") && !placed[folder] && !named[folder] {
			t.Errorf("docs/architecture.md, the folder tree: the package %s is missing", folder)
		}
	}
}

// TestTreeIsParsed reads a tree with a line of several folders, a folder below such a line, and folders that a
// description names, in its second line as well.
func TestTreeIsParsed(t *testing.T) {
	placed, named := parseTree(`proxyd/               the daemon
  main.go daemon.go     its steps
  rpc/ rpc/munge/       the contract; wire/ has its bytes
    kind/                 errors; codes/ and
                          kind/names/ are below
policies/             rules`)
	wantPlaced := []string{"policies", "proxyd", "proxyd/rpc", "proxyd/rpc/kind", "proxyd/rpc/munge"}
	if got := slices.Sorted(maps.Keys(placed)); !slices.Equal(got, wantPlaced) {
		t.Errorf("folders with lines of their own: %q, want %q", got, wantPlaced)
	}
	for _, folder := range []string{"proxyd/rpc/wire", "proxyd/rpc/munge/wire", "proxyd/rpc/kind/codes", "proxyd/rpc/kind/names"} {
		if !named[folder] {
			t.Errorf("descriptions do not name %s: %v", folder, named)
		}
	}
	if named["proxyd/rpc"] || named["policies/codes"] {
		t.Errorf("descriptions name a folder that begins a line, or one below another line: %v", named)
	}
}

var (
	// treeLine is a line of the tree: the indentation, names, and a description after two spaces.
	treeLine = regexp.MustCompile(`^( *)(\S+(?: \S+)*)(?:   *(.*))?$`)
	// treeFolder is a folder in a line of the tree, which ends in a slash.
	treeFolder = regexp.MustCompile(`(?:^|[\s(])((?:[\w-]+/)+)`)
)

// maxTreeIndent is the deepest indentation of a name: a line that begins further to the right continues the description
// of the line above.
const maxTreeIndent = 12

// parseTree returns the folders that begin a line of the tree, and the folders that descriptions name, which are below
// the folders of the line or beside them. A line that is indented below a line of several folders belongs to the first of them.
func parseTree(tree string) (placed, named map[string]bool) {
	placed, named = map[string]bool{}, map[string]bool{}
	parents := map[int]string{} // by indentation
	var described []string      // the folders of the latest line
	for line := range strings.Lines(tree) {
		parts := treeLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if parts == nil {
			continue
		}
		indent, description := len(parts[1]), parts[3]
		if indent > maxTreeIndent {
			description = line
		} else {
			described = nil
			for _, found := range treeFolder.FindAllStringSubmatch(parts[2], -1) {
				folder := filepath.Join(parents[indent-2], found[1])
				placed[folder] = true
				described = append(described, folder)
			}
			if described != nil {
				parents[indent] = described[0]
			}
		}
		for _, found := range treeFolder.FindAllStringSubmatch(description, -1) {
			for _, folder := range described {
				named[filepath.Join(folder, found[1])] = true
				named[filepath.Join(filepath.Dir(folder), found[1])] = true
			}
		}
	}
	return placed, named
}

// TestOnlySources finds no compiled program and no other large file among the files that git has: `go build` in the wrong
// folder leaves a program behind, and each clone would carry the program for ever.
func TestOnlySources(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("SKIP: this tree is not a clone")
	}
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	paths := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(paths) < 1000 {
		t.Errorf("git has only %d files", len(paths))
	}
	for _, path := range paths {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil { // removed or a link to a folder: not in the next commit, or no content
			continue
		}
		if strings.HasPrefix(string(b), "\x7fELF") || strings.HasPrefix(string(b), "!<arch>") {
			t.Errorf("%s is compiled: git rm --cached %s, and name it in .gitignore", path, path)
		}
		if len(b) > 1<<20 {
			t.Errorf("%s has %d bytes: sources are smaller", path, len(b))
		}
	}
}
