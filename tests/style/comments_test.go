// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocComments compares the first word of the comment of each function, and of each method of an interface, with its
// name: a comment that begins with another name was left behind by a renaming.
func TestDocComments(t *testing.T) {
	commented := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go"),
			strings.HasPrefix(d.Name(), "gen_"): // generated
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		wrong, count := misnamedComments(files, file)
		commented += count
		for _, finding := range wrong {
			t.Errorf("misnamed comment: %v", strings.TrimPrefix(finding, root+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if commented < 5000 {
		t.Errorf("%d functions have a comment, want 5000 or more", commented)
	}
}

// TestMisnamedComments gives TestDocComments' rule a file with comments of all kinds.
func TestMisnamedComments(t *testing.T) {
	const functions = `package p

// right does what it says.
func right() {}

// right's comment may begin so.
func (r *rights) right() {}

// left is a name that is not there.
func renamed() {}

// A sentence does not begin with the name.
func described() {}

//go:noescape
func directive()

// The kernel is told before main.
func init() {}

type engine interface {
	// compile links.
	compile()
	// kernel finds a kernel.
	findKernel()
	compileAll() // no comment of the method
}

type hooks struct {
	// told is called at the end.
	told func()
	// A field of another kind is not looked at.
	count int
}
`
	for name, want := range map[string]string{
		"p.go": "p.go:9: the comment of renamed begins with \"left\"\np.go:12: the comment of described begins with \"A\"\n" +
			"p.go:24: the comment of findKernel begins with \"kernel\"",
		"p_test.go": "p_test.go:9: the comment of renamed begins with \"left\"\np_test.go:24: the comment of findKernel begins with \"kernel\"",
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, functions, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		got, count := misnamedComments(files, file)
		if strings.Join(got, "\n") != want || count != 7 {
			t.Errorf("%s: findings\n%s\nof %d comments, want\n%s\nof 7", name, strings.Join(got, "\n"), count, want)
		}
	}
}

// misnamedComments returns the faults of the comments of a file's functions, and how many functions have a comment.
// In a file of tests, a comment may begin with a sentence in place of the name.
func misnamedComments(files *token.FileSet, file *ast.File) (wrong []string, count int) {
	ast.Inspect(file, func(node ast.Node) bool {
		var name string
		var comment *ast.CommentGroup
		switch n := node.(type) {
		case *ast.FuncDecl:
			name, comment = n.Name.Name, n.Doc
		case *ast.Field:
			if _, isFunction := n.Type.(*ast.FuncType); isFunction && len(n.Names) == 1 {
				name, comment = n.Names[0].Name, n.Doc
			}
		}
		words := strings.Fields(comment.Text())
		if name == "init" || len(words) == 0 {
			return true
		}
		count++
		first := strings.TrimSuffix(strings.TrimRight(words[0], ",:."), "'s")
		inTests := strings.HasSuffix(files.Position(file.Pos()).Filename, "_test.go")
		if first != name && (!inTests || otherName.MatchString(first)) {
			at := files.Position(comment.Pos())
			wrong = append(wrong, fmt.Sprintf("%s:%d: the comment of %s begins with %q", at.Filename, at.Line, name, first))
		}
		return true
	})
	return wrong, count
}

// otherName is a word that is a name in the code, and does not begin a sentence.
var otherName = regexp.MustCompile(`^([a-z]\w*|(Test|Fuzz|Benchmark|Example)[A-Z]\w*)$`)

// nameInComment is a Go file in a comment, with the folders above the file or without; not "*_gen.go".
var nameInComment = regexp.MustCompile(`(?:^|[\s(,:])((?:[\w-]+/)*[a-z0-9]\w*\.go)\b`)

// TestNamesInComments finds each Go file that a comment names, in Go and in C.
func TestNamesInComments(t *testing.T) {
	named := 0
	paths := listPaths(t)
	for source := range paths {
		text, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			continue // the end of a path
		}
		var comments string
		switch filepath.Ext(source) {
		case ".c", ".h":
			comments = string(text)
		case ".go":
			file, err := parser.ParseFile(token.NewFileSet(), source, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range file.Comments {
				comments += c.Text() + "\n"
			}
		}
		for _, found := range nameInComment.FindAllStringSubmatch(comments, -1) {
			named++
			if !paths[found[1]] {
				t.Errorf("a comment of %s names %s, which is not there", source, found[1])
			}
		}
	}
	if named < 250 {
		t.Errorf("%d files are named: the pattern is wrong", named)
	}
}
