// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"regexp"
	"slices"
	"strings"
)

// testFolders are the names of folders with C for tests. The C of all folders below them is for tests as well.
var testFolders = []string{"codetest", "pmitest", "shimtest", "stub", "test", "testdata", "tests"}

// isCTest says whether the C of a folder is for tests.
func isCTest(folder string) bool {
	return slices.ContainsFunc(strings.Split(folder, "/"), func(name string) bool {
		return slices.Contains(testFolders, name)
	})
}

var (
	generatedC  = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	attribute   = regexp.MustCompile(`__attribute__\s*\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)`)
	functionOfC = regexp.MustCompile(`(\w+)\s*\(`)
)

// addCFile adds the counts of a C file, and returns false for a generated file. A function is found by its braces, which
// stand alone at the beginning of a line, as clang-format puts them.
func (c *Counts) addCFile(text string) (counted bool) {
	if generatedC.MatchString(text) {
		return false
	}
	c.addLines(text)
	code, comments := splitC(text)
	for _, comment := range comments {
		c.addComment(comment)
	}
	var head strings.Builder // the text between the last declaration and the next brace
	begin := -1              // the line of the function's opening brace, -1 outside of functions
	number := 0
	for line := range strings.Lines(code) {
		number++
		line = strings.TrimRight(line, " \t\n")
		switch {
		case begin >= 0:
			if line == "}" {
				c.FunctionLines = append(c.FunctionLines, number-begin-1)
				begin = -1
			}
		case line == "{":
			begin = number
			c.addCFunction(head.String())
			head.Reset()
		case strings.HasPrefix(line, "#") || line == "" || strings.HasSuffix(line, ";") || strings.HasPrefix(line, "}"):
			head.Reset()
		default:
			head.WriteString(line + " ")
		}
	}
	return true
}

// addCFunction counts the name of a static function. head is the function's declaration.
func (c *Counts) addCFunction(head string) {
	name := functionOfC.FindStringSubmatch(attribute.ReplaceAllString(head, ""))
	if name != nil && slices.Contains(strings.Fields(head), "static") {
		c.addName(name[1])
	}
}

// splitC splits C into its code, where a comment leaves only the ends of its lines, and its comments.
func splitC(text string) (code string, comments []string) {
	var rest strings.Builder
	for i := 0; i < len(text); {
		end := i + 1
		switch {
		case strings.HasPrefix(text[i:], "//"):
			end = i + findEnd(text[i:], "\n", 0)
			comments = append(comments, text[i+2:end])
			i = end
			continue
		case strings.HasPrefix(text[i:], "/*"):
			end = i + 2 + findEnd(text[i+2:], "*/", 2)
			comments = append(comments, text[i:end])
			rest.WriteString(strings.Repeat("\n", strings.Count(text[i:end], "\n")))
			i = end
			continue
		case text[i] == '"' || text[i] == '\'':
			end = i + literalLength(text[i:])
		}
		rest.WriteString(text[i:end])
		i = end
	}
	return rest.String(), comments
}

// findEnd returns the offset of the first mark in text, plus past, or the text's length if it has no mark.
func findEnd(text, mark string, past int) int {
	if at := strings.Index(text, mark); at >= 0 {
		return at + past
	}
	return len(text)
}

// literalLength returns the length of the string or character with which text begins, with its quotes.
func literalLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0], '\n':
			return i + 1
		}
	}
	return len(text)
}
