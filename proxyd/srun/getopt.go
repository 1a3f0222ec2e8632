// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"regexp"
	"strings"
)

// Table has the options that a release of srun knows.
type Table struct {
	long  map[string]*Option
	short map[byte]*Option
}

// NewTable returns the options of a Slurm release, as "24.11" or "24.11.5"; "" means any release.
func NewTable(release string) Table {
	t := Table{map[string]*Option{}, map[byte]*Option{}}
	if parts := strings.SplitN(release, ".", 3); len(parts) > 1 {
		release = parts[0] + "." + parts[1]
	}
	for i := range options {
		o := &options[i]
		if release != "" && (o.Since > release || o.Until != "" && o.Until < release) {
			continue
		}
		t.add(o)
	}
	return t
}

func (t Table) add(o *Option) {
	if old := t.long[o.Name]; old != nil && old.Arg > o.Arg {
		return // of any release: whether the option takes an argument differs
	}
	t.long[o.Name] = o
	if o.Short != 0 {
		t.short[o.Short] = o
	}
}

var pluginOption = regexp.MustCompile(`^ +--([A-Za-z0-9][A-Za-z0-9_-]*)(\[?=)?`)

// Learn adds the options of SPANK plugins that `srun --help` lists. There is no other way to
// learn them: they depend on the node's plugstack.conf.
func (t Table) Learn(help []byte) {
	_, plugins, _ := strings.Cut(string(help), "Options provided by plugins:\n")
	for line := range strings.Lines(plugins) {
		m := pluginOption.FindStringSubmatch(line)
		if m == nil || t.long[m[1]] != nil {
			continue
		}
		o := &Option{Name: m[1]}
		switch m[2] {
		case "=":
			o.Arg = Required
			if rest := line[strings.Index(line, "=")+1:]; strings.HasPrefix(rest, "[") {
				o.Arg = Optional // "--singularity=[LIST]": how plugins write an optional argument
			}
		case "[=":
			o.Arg = Optional
		}
		t.add(o)
	}
}

// givenOption is an option on a command line.
type givenOption struct {
	option   *Option
	value    string
	hasValue bool
	raw      []string // the words that this option alone makes up; nil if it shares a word with other options
}

// asWords returns the option in words that getopt_long reads as the same option.
func (g givenOption) asWords() []string {
	switch {
	case g.raw != nil:
		return g.raw
	case g.hasValue:
		return []string{"--" + g.option.Name + "=" + g.value}
	}
	return []string{"--" + g.option.Name}
}

// withValue returns the option with another value.
func (g givenOption) withValue(value string) givenOption {
	return givenOption{option: g.option, value: value, hasValue: true}
}

// parseWords reads options as getopt_long with "+" does: up to the first word that is no option.
// rest begins with that word, or with "--". Where srun itself would complain, parseWords stops;
// an unknown option is passed over, for it may be a plugin's.
func (t Table) parseWords(words []string) (opts []givenOption, rest []string) {
	for len(words) > 0 {
		w := words[0]
		switch {
		case w == "--" || w == "-" || !strings.HasPrefix(w, "-"):
			return opts, words
		case strings.HasPrefix(w, "--"):
			g, n := t.parseLong(words)
			if n == 0 {
				return opts, words
			}
			opts, words = append(opts, g), words[n:]
		default:
			cluster, n := t.parseShort(words)
			if n == 0 {
				return opts, words
			}
			opts, words = append(opts, cluster...), words[n:]
		}
	}
	return opts, nil
}

// findOption returns the option that a name, perhaps abbreviated, stands for. ok is false if the
// name could stand for several.
func (t Table) findOption(name string) (o *Option, ok bool) {
	if o := t.long[name]; o != nil {
		return o, true
	}
	for long, candidate := range t.long {
		if !strings.HasPrefix(long, name) {
			continue
		}
		if o != nil && canonicalName(o) != canonicalName(candidate) {
			return nil, false
		}
		if o == nil || o.Same != "" {
			o = candidate
		}
	}
	return o, true
}

func canonicalName(o *Option) string {
	if o.Same != "" {
		return o.Same
	}
	return o.Name
}

// parseLong returns how many words the option takes, 0 if srun would complain.
func (t Table) parseLong(words []string) (givenOption, int) {
	name, value, joined := strings.Cut(words[0][2:], "=")
	o, ok := t.findOption(name)
	switch {
	case !ok:
		return givenOption{}, 0
	case o == nil:
		return givenOption{option: &Option{Name: name}, value: value, hasValue: joined, raw: words[:1]}, 1
	case joined:
		if o.Arg == None {
			return givenOption{}, 0
		}
		return givenOption{o, value, true, words[:1]}, 1
	case o.Arg != Required:
		return givenOption{option: o, raw: words[:1]}, 1
	case len(words) < 2:
		return givenOption{}, 0
	}
	return givenOption{o, words[1], true, words[:2]}, 2
}

// parseShort reads a word of short options, and the next if that is an argument.
func (t Table) parseShort(words []string) ([]givenOption, int) {
	var cluster []givenOption
	letters := words[0][1:]
	for i := range len(letters) {
		o := t.short[letters[i]]
		if o == nil {
			return nil, 0
		}
		rest := letters[i+1:]
		switch {
		case o.Arg == None:
			cluster = append(cluster, givenOption{option: o})
			continue
		case rest != "":
			cluster = append(cluster, givenOption{option: o, value: rest, hasValue: true})
		case o.Arg == Optional:
			cluster = append(cluster, givenOption{option: o})
		case len(words) < 2:
			return nil, 0
		default:
			return keepOriginalWords(append(cluster, givenOption{option: o, value: words[1], hasValue: true}), words[:2]), 2
		}
		break
	}
	return keepOriginalWords(cluster, words[:1]), 1
}

// keepOriginalWords keeps words as they were written where a single option is all that is in them.
func keepOriginalWords(cluster []givenOption, words []string) []givenOption {
	if len(cluster) == 1 {
		cluster[0].raw = words
	}
	return cluster
}
