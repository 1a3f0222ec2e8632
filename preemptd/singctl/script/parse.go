// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"regexp"
	"slices"
	"strings"
)

// option is an option of a line with #SBATCH; hetjob and packjob are options here too.
type option struct {
	name, value string
	line        int
}

func (o option) shownText() string {
	if o.value == "" {
		return "#SBATCH " + o.name
	}
	return "#SBATCH " + o.name + "=" + o.value
}

// command is a simple command. It has a word, or more.
type command struct {
	words []string
	line  int
}

// maxCommandText is the greatest length of a command's text.
const maxCommandText = 60

func (c command) shownText() string {
	text := strings.Join(c.words, " ")
	if r := []rune(text); len(r) > maxCommandText {
		return string(r[:maxCommandText-1]) + "…"
	}
	return text
}

// parseScript returns the options that sbatch reads, and the commands. parseScript splits lines nearly as a shell
// does, and makes no expansions: the contents of variables, functions and sourced files are not known.
func parseScript(text string) ([]option, []command) {
	var options []option
	var commands []command
	isShell := !strings.HasPrefix(text, "#!") || shellLine.MatchString(text)
	inCommands := false
	var ends []hereDocument
	joined, first := "", 0
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if len(ends) > 0 {
			if ends[0].endsWith(line) {
				ends = ends[1:]
			}
			continue
		}
		if joined == "" {
			first = n + 1
		}
		if !inCommands && joined == "" {
			options = append(options, parseOptions(line, first)...)
		}
		if before, continued := strings.CutSuffix(line, `\`); continued && !isComment(line) {
			joined += before + " "
			continue
		}
		line, joined = joined+line, ""
		if isComment(line) || strings.TrimSpace(line) == "" {
			continue
		}
		inCommands = true // sbatch reads no options behind the first command
		if !isShell {
			continue
		}
		tokens, open := splitTokens(line)
		if open {
			joined = line + "\n"
			continue
		}
		found, here := splitCommands(tokens, first)
		commands, ends = append(commands, found...), here
	}
	return options, commands
}

// IsHeterogeneous tells whether a script asks for a job of several components.
func IsHeterogeneous(text string) bool {
	options, _ := parseScript(text)
	return slices.ContainsFunc(options, func(o option) bool { return o.name == "hetjob" || o.name == "packjob" })
}

// shellLine is the first line of a script for a shell.
var shellLine = regexp.MustCompile(`^#![^\n]*\b(ba|da|k|z)?sh\b`)

func isComment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }

// shortOption is an option of a single letter, with its value or without.
var shortOption = regexp.MustCompile(`^-[A-Za-z]`)

// parseOptions returns the options of a line. A value that stands behind a blank is read for fileOptions only.
func parseOptions(line string, number int) []option {
	rest, ok := strings.CutPrefix(line, "#SBATCH")
	if !ok || rest == "" || !strings.ContainsAny(rest[:1], " \t") {
		return nil
	}
	var all []option
	for _, word := range strings.Fields(rest) {
		if strings.HasPrefix(word, "#") {
			break
		}
		if !strings.HasPrefix(word, "-") && word != "hetjob" && word != "packjob" {
			if last := len(all) - 1; last >= 0 && all[last].value == "" && slices.Contains(fileOptions, all[last].name) {
				all[last].value = strings.Trim(word, `"'`)
			}
			continue // a value
		}
		name, value, _ := strings.Cut(word, "=")
		if shortOption.MatchString(word) {
			name, value = word[:2], word[2:]
		}
		all = append(all, option{name, strings.Trim(value, `"'`), number})
	}
	return all
}

// hereDocument is text within a script that is not the script's.
type hereDocument struct {
	end  string
	tabs bool // may stand before end
}

func (h hereDocument) endsWith(line string) bool {
	if h.tabs {
		line = strings.TrimLeft(line, "\t")
	}
	return line == h.end
}

// beforeCommand are words behind which a command stands.
var beforeCommand = []string{
	"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "exec", "nohup", "nice", "env", "command", "setsid", "stdbuf",
}

// splitCommands returns the simple commands of a line, and the here-documents that begin behind it.
func splitCommands(tokens []token, number int) ([]command, []hereDocument) {
	var all []command
	var here []hereDocument
	var words []string
	finish := func() {
		for len(words) > 0 && (slices.Contains(beforeCommand, words[0]) || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) > 0 {
			all = append(all, command{words, number})
		}
		words = nil
	}
	for _, t := range tokens {
		switch {
		case t.operator && (t.text == "<<" || t.text == "<<-"):
			here = append(here, hereDocument{tabs: t.text == "<<-"})
		case t.operator:
			finish()
		case len(here) > 0 && here[len(here)-1].end == "":
			here[len(here)-1].end = t.text
		default:
			words = append(words, t.text)
		}
	}
	finish()
	return all, here
}

// assignment is a variable that is set for a command.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// token is a word without its quotes, or an operator.
type token struct {
	text     string
	operator bool
}

// operators end a command; operators of here-documents do not. The longest of a beginning is first.
var operators = []string{"<<<", "<<-", "<<", "&&", "||", ";;", "|&", "&>>", "&>", ">&", "<&", "|", "&", ";", "(", ")", "`"}

// redirections are operators that end no command.
var redirections = []string{"<<<", "&>>", "&>", ">&", "<&"}

// splitTokens splits a line. open says that the line ends within quotes.
func splitTokens(line string) (all []token, open bool) {
	word, quoted := "", false
	finish := func() {
		if word != "" || quoted {
			all = append(all, token{text: word})
		}
		word, quoted = "", false
	}
	for i := 0; i < len(line); {
		rest := line[i:]
		at := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(rest, o) })
		switch {
		case rest[0] == '\'' || rest[0] == '"':
			text, size, closed := cutQuoted(rest)
			word, quoted, open, i = word+text, true, !closed, i+size
			continue
		case rest[0] == '\\' && len(rest) > 1:
			word, i = word+rest[1:2], i+2
			continue
		case rest[0] == ' ' || rest[0] == '\t':
			finish()
		case rest[0] == '#' && word == "" && !quoted:
			finish()
			return all, false
		case at >= 0 && slices.Contains(redirections, operators[at]):
			finish()
			i += len(operators[at])
			continue
		case at >= 0:
			finish()
			all = append(all, token{operators[at], true})
			i += len(operators[at])
			continue
		default:
			word += rest[:1]
		}
		i++
	}
	finish()
	return all, open
}

// cutQuoted returns the text between the quotes with which s begins, and how many bytes that takes with the quotes.
// closed is false if s ends first.
func cutQuoted(s string) (text string, size int, closed bool) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b.String(), i + 1, true
		case s[i] == '\\' && quote == '"' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), len(s), false
}
