// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package measure counts properties that make Go code easy or hard to read: how long functions and files are, how
// functions are named, how many pronouns the comments have, how large types and packages are.
//
// The counts of Go are made from the syntax tree of each file alone. They do not depend on build tags, and no code is
// compiled. Generated files ("Code generated … DO NOT EDIT.") and folders named testdata are left out.
//
// Test files of Go, and C, are counted in the same way, but apart: see Kind.
package measure

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// LongFile is the number of lines from which on a file counts as long.
const LongFile = 400

// Kind is a kind of files that are counted apart from all other files.
type Kind int

// The kinds of files.
const (
	Go     Kind = iota // without test files
	GoTest             // test files: names that end with _test.go
	C                  // sources and headers, without tests
	CTest              // C in folders of tests, and C that tests compile: testdata
)

// Counts are the counts of a package, or the sum over several packages, for one kind of files. In the counts of Go, test
// files count in TestLines and Examples only. A C function counts as unexported if it is static.
type Counts struct {
	Files     int // of this kind
	LongFiles int // of more than LongFile lines
	Lines     int // of files of this kind
	TestLines int // of test files, in counts of Go

	FunctionLines []int // the lines of each function's body, sorted

	Unexported        int // unexported functions and methods, without main and init
	UnexportedOneWord int // of these, with a name of one word
	UnexportedLetters int // the sum of the lengths of their names

	Types        int // types that are declared, in Go
	RiddledTypes int // of these, with a lone adjective, participle, pronoun or verb as the name: see IsRiddle

	Errorf        int // calls of fmt.Errorf
	ErrorfWrapped int // of these, with %w in their format

	CommentWords int
	Pronouns     map[string]int // by the names of PronounGroups

	Examples int            // runnable examples: functions of tests with names that begin with Example
	Methods  map[string]int // by type; in a sum, by the package's folder and type
}

// PronounGroup is a set of words that stand for something that the reader has to look for.
type PronounGroup struct {
	Name  string
	Words []string
}

// PronounGroups are the words that are counted in comments.
var PronounGroups = []PronounGroup{
	{"who/whom/whose", []string{"who", "whom", "whose", "whoever"}},
	{"it", []string{"it"}},
	{"one/ones/those/others", []string{"one", "ones", "those", "others"}},
	{"nobody/somebody", []string{"nobody", "somebody"}},
	{"what/whatever", []string{"what", "whatever"}},
	{"nothing/none", []string{"nothing", "none"}},
}

// Tree counts all files of a kind below root and returns the counts by folder, relative to root. Folders with names that
// begin with a dot are left out, and testdata except for CTest.
func Tree(root string, kind Kind) (map[string]*Counts, error) {
	packages := make(map[string]*Counts)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// bin is make's output, such as the kit for GPUs, which has sources in it.
			if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || folder == "bin" || name == "testdata" && kind != CTest) {
				return filepath.SkipDir
			}
			return nil
		}
		folder = filepath.Dir(folder)
		if !kind.countsFile(folder, entry.Name()) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		counts := packages[folder]
		if counts == nil {
			counts = newCounts()
		}
		counted, err := counts.addFile(path, text, kind)
		if err != nil {
			return err
		}
		if counted {
			packages[folder] = counts
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count files below %s: %w", root, err)
	}
	for _, counts := range packages {
		slices.Sort(counts.FunctionLines)
	}
	return packages, nil
}

// countsFile says whether counts of this kind need a file of a folder. Counts of Go need test files as well.
func (k Kind) countsFile(folder, name string) bool {
	switch k {
	case Go:
		return strings.HasSuffix(name, ".go")
	case GoTest:
		return strings.HasSuffix(name, "_test.go")
	case C, CTest:
		isC := strings.HasSuffix(name, ".c") || strings.HasSuffix(name, ".h")
		return isC && isCTest(folder) == (k == CTest)
	}
	return false
}

// Sum adds the counts of several packages.
func Sum(packages map[string]*Counts) *Counts {
	sum := newCounts()
	for folder, counts := range packages {
		sum.Files += counts.Files
		sum.LongFiles += counts.LongFiles
		sum.Lines += counts.Lines
		sum.TestLines += counts.TestLines
		sum.FunctionLines = append(sum.FunctionLines, counts.FunctionLines...)
		sum.Unexported += counts.Unexported
		sum.UnexportedOneWord += counts.UnexportedOneWord
		sum.UnexportedLetters += counts.UnexportedLetters
		sum.Types += counts.Types
		sum.RiddledTypes += counts.RiddledTypes
		sum.Errorf += counts.Errorf
		sum.ErrorfWrapped += counts.ErrorfWrapped
		sum.CommentWords += counts.CommentWords
		sum.Examples += counts.Examples
		for name, n := range counts.Pronouns {
			sum.Pronouns[name] += n
		}
		for name, n := range counts.Methods {
			sum.Methods[folder+"."+name] += n
		}
	}
	slices.Sort(sum.FunctionLines)
	return sum
}

func newCounts() *Counts {
	return &Counts{Pronouns: make(map[string]int), Methods: make(map[string]int)}
}

// addFile adds a file's counts. It returns false for a generated file, which is not counted.
func (c *Counts) addFile(path string, text []byte, kind Kind) (counted bool, err error) {
	if kind == C || kind == CTest {
		return c.addCFile(string(text)), nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	if ast.IsGenerated(file) {
		return false, nil
	}
	if kind == Go && strings.HasSuffix(path, "_test.go") {
		c.TestLines += countLines(string(text))
		c.addExamples(file)
		return true, nil
	}
	c.addLines(string(text))
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			c.addFunction(files, function)
		}
	}
	c.addTypes(file)
	for _, group := range file.Comments {
		c.addComment(group.Text()) // without directives such as go:generate
	}
	c.addErrorf(file)
	return true, nil
}

// addLines counts a file and its lines.
func (c *Counts) addLines(text string) {
	lines := countLines(text)
	c.Files++
	c.Lines += lines
	if lines > LongFile {
		c.LongFiles++
	}
}

func countLines(text string) int { return strings.Count(text, "\n") }

func (c *Counts) addExamples(file *ast.File) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Example") {
			c.Examples++
		}
	}
}

func (c *Counts) addFunction(files *token.FileSet, function *ast.FuncDecl) {
	first, last := files.Position(function.Pos()).Line, files.Position(function.End()).Line
	c.FunctionLines = append(c.FunctionLines, max(0, last-first-1))
	if function.Recv != nil {
		c.Methods[receiverType(function)]++
	}
	name := function.Name.Name
	if ast.IsExported(name) || name == "main" || name == "init" || name == "_" {
		return
	}
	c.addName(name)
}

// addName counts the name of an unexported function.
func (c *Counts) addName(name string) {
	c.Unexported++
	c.UnexportedLetters += len(name)
	if isOneWord(name) {
		c.UnexportedOneWord++
	}
}

// receiverType returns the name of the type that a method belongs to, without pointer and type parameters.
func receiverType(method *ast.FuncDecl) string {
	expression := method.Recv.List[0].Type
	for {
		switch e := expression.(type) {
		case *ast.StarExpr:
			expression = e.X
		case *ast.ParenExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// isOneWord says whether a name in camelCase or snake_case has one word only. An "Of" at the end is no word: sizeOf says
// no more than size.
func isOneWord(name string) bool {
	if first := strings.TrimSuffix(name, "Of"); first != "" {
		name = first
	}
	return !strings.ContainsFunc(name[1:], func(r rune) bool { return unicode.IsUpper(r) || r == '_' })
}

func (c *Counts) addComment(text string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "SPDX-") {
			continue
		}
		for _, word := range WordsOf(line) {
			c.CommentWords++
			if group := pronounGroup(word); group != "" {
				c.Pronouns[group]++
			}
		}
	}
}

// WordsOf returns the words of a comment in lower case.
func WordsOf(comment string) []string {
	return strings.FieldsFunc(strings.ToLower(comment), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '_' })
}

func pronounGroup(word string) string {
	for _, group := range PronounGroups {
		if slices.Contains(group.Words, word) {
			return group.Name
		}
	}
	return ""
}

func (c *Counts) addErrorf(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || function.Sel.Name != "Errorf" {
			return true
		}
		if library, ok := function.X.(*ast.Ident); !ok || library.Name != "fmt" {
			return true
		}
		c.Errorf++
		if format, ok := call.Args[0].(*ast.BasicLit); ok && strings.Contains(format.Value, "%w") {
			c.ErrorfWrapped++
		}
		return true
	})
}

// Percentile returns the number of lines that the bodies of p percent of the functions do not exceed, 0 without functions.
func (c *Counts) Percentile(p int) int {
	if len(c.FunctionLines) == 0 {
		return 0
	}
	return c.FunctionLines[(len(c.FunctionLines)-1)*p/100]
}

// RiddledTypeShare returns the percentage of types that IsRiddle finds.
func (c *Counts) RiddledTypeShare() float64 { return scaleShare(100, c.RiddledTypes, c.Types) }

// OneWordShare returns the percentage of unexported functions that have a name of one word.
func (c *Counts) OneWordShare() float64 { return scaleShare(100, c.UnexportedOneWord, c.Unexported) }

// NameLength returns the mean length of the names of unexported functions.
func (c *Counts) NameLength() float64 { return scaleShare(1, c.UnexportedLetters, c.Unexported) }

// WrappedShare returns the percentage of fmt.Errorf's calls that wrap an error.
func (c *Counts) WrappedShare() float64 { return scaleShare(100, c.ErrorfWrapped, c.Errorf) }

// TestShare returns the percentage of all lines that are in test files.
func (c *Counts) TestShare() float64 { return scaleShare(100, c.TestLines, c.Lines+c.TestLines) }

// PronounRate returns how many words of a group there are in 1,000 words of comments.
func (c *Counts) PronounRate(group string) float64 {
	return scaleShare(1000, c.Pronouns[group], c.CommentWords)
}

func scaleShare(of float64, part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return of * float64(part) / float64(whole)
}

// NamedCount is a name with a number.
type NamedCount struct {
	Name string
	N    int
}

// LargestTypes returns the n types with the most methods, the largest first.
func (c *Counts) LargestTypes(n int) []NamedCount { return takeLargest(c.Methods, n) }

// LargestPackages returns the n packages with the most files that are not tests, the largest first.
func LargestPackages(packages map[string]*Counts, n int) []NamedCount {
	files := make(map[string]int, len(packages))
	for folder, counts := range packages {
		files[folder] = counts.Files
	}
	return takeLargest(files, n)
}

func takeLargest(sizes map[string]int, n int) []NamedCount {
	var sorted []NamedCount
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		sorted = append(sorted, NamedCount{name, sizes[name]})
	}
	slices.SortStableFunc(sorted, func(a, b NamedCount) int { return b.N - a.N })
	return sorted[:min(n, len(sorted))]
}
