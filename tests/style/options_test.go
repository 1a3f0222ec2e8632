// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// jobOption is a row of the table of options in slurm-spank/options.c.
type jobOption struct {
	flag  string // "singularity-on-failure"
	brief string // within --singularity=: "on-failure"
	key   string // to proxyd: "on_failure"
	value string // as --help shows the value
	bare  bool   // the option may be given without a value
}

// TestOptions checks that each place that repeats the options of a job has all rows of the plugin's table: the plugin's
// own lists, proxyd, docs and tests. The place that says what the option does is no list, and is not looked at.
func TestOptions(t *testing.T) {
	options, accepted := readOptions(t)
	brief := options[1:] // all but --singularity itself, which has a list of these
	var flags, keys, names, quoted, bare []string
	for _, o := range options {
		flags, keys = append(flags, o.flag), append(keys, o.key)
		if o.bare {
			bare = append(bare, o.flag)
		}
	}
	for _, o := range brief {
		names, quoted = append(names, o.brief), append(quoted, "`"+o.brief+"`")
	}
	count := strconv.Itoa(len(options))

	wantText(t, "slurm-spank/options.c", "OPTIONS = "+count+" ")
	wantText(t, "slurm-spank/options.c", "KEY is "+joinWords(names, "or")+", as below;")
	wantText(t, "slurm-spank/options.c", `"`+accepted+`"`)
	wantText(t, "slurm-spank/stub/test_options.c", `#define LIST "`+accepted+`"`)
	wantText(t, "slurm-spank/stub/test_options.c", "options_registered() == "+count+")")
	wantText(t, "slurm-spank/live/live_test.go", "const list = `accepted: "+accepted+"`")
	for _, o := range options {
		wantText(t, "slurm-spank/live/live_test.go", `"--`+o.flag+"="+o.value+`",`)
	}
	wantSame(t, "slurm-spank/cmdline.c, options of ours that do not take the next word",
		firstGroups(readPart(t, "slurm-spank/cmdline.c", "long_alone[] = {", "};"), `"(singularity[^"]*)"`), bare)
	wantSame(t, "slurm-spank/wire.h, the options in the message to proxyd",
		firstGroups(readPart(t, "slurm-spank/wire.h", "And each option that was given:", "*/"), `(\w+) \(`), keys)
	wantSame(t, "proxyd/nodesocket/server.go, options",
		firstGroups(readPart(t, "proxyd/nodesocket/server.go", "\nvar options = ", "}"), `"(\w+)"`), keys)

	parsed := readPart(t, "proxyd/checkpoint/records/record.go", "\nfunc ParseOptions(", "\n}")
	shown := readPart(t, "proxyd/service.go", "\nfunc fillJob(", "\n}")
	for _, o := range brief {
		if o.key == "lease" { // A lease is not protected, and has no record.
			continue
		}
		if !strings.Contains(parsed, `given["`+o.key+`"]`) {
			t.Errorf("proxyd/checkpoint/records/record.go, ParseOptions: %s is not read", o.key)
		}
		if !strings.Contains(shown, `"`+o.brief+`"`) {
			t.Errorf("proxyd/service.go, fillJob: singctl show has no %s", o.brief)
		}
	}

	wantText(t, "slurm-spank/README.md", "keys: "+strings.Join(names, ", ")+" --")
	wantSame(t, "slurm-spank/README.md, the options", firstGroups(readPart(t, "slurm-spank/README.md", "\n## Options\n", "\n## "), `(?m)^--([\w-]+)`), flags)
	wantText(t, "docs/use.md", "the keys are "+joinWords(quoted, "and")+", as below.")
	rows := firstGroups(readPart(t, "docs/use.md", "\n## Options\n", "\n## "), "(?m)^\\| `--([\\w-]+)")
	wantSame(t, "docs/use.md, the table of options, sorted", slices.Sorted(slices.Values(rows)), slices.Sorted(slices.Values(flags)))
}

// readOptions reads the table of options, and returns what --singularity itself accepts according to the other rows. It
// fails where a row has one name in spellings that do not belong together.
func readOptions(t *testing.T) (all []jobOption, accepted string) {
	t.Helper()
	table := readPart(t, "slurm-spank/options.c", "} rows[OPTIONS] = {\n", "\n};")
	for row := range strings.SplitSeq(table, "\n\t},") {
		if strings.TrimSpace(row) == "" {
			continue
		}
		text := func(field string) string {
			found := firstGroups(row, `(?m)^\t\t\.`+field+` = (?:FORWARDED )?"([^"]*)",$`)
			return strings.Join(found, "")
		}
		o := jobOption{flag: text("flag"), brief: text("brief"), key: text("key"), value: text("value"), bare: strings.Contains(row, ".bare = true")}
		if o.flag == "" || o.key == "" || o.value == "" {
			t.Fatalf("slurm-spank/options.c: a row of the table cannot be read:%s", row)
		}
		if len(all) > 0 && o.flag != "singularity-"+o.brief {
			t.Errorf("slurm-spank/options.c: the option --%s has the short name %s", o.flag, o.brief)
		}
		name := strings.TrimPrefix(o.flag, "singularity-")
		if want := strings.ReplaceAll(name, "-", "_"); o.key != want {
			t.Errorf("slurm-spank/options.c: --%s has the key %s, want %s", o.flag, o.key, want)
		}
		if want := strings.ReplaceAll(o.flag, "-", "_"); text("forwarded") != want {
			t.Errorf("slurm-spank/options.c: --%s is forwarded as %s, want %s", o.flag, text("forwarded"), want)
		}
		all = append(all, o)
	}
	if len(all) < 2 {
		t.Fatal("slurm-spank/options.c: the table of options cannot be read")
	}
	var forms []string
	for _, o := range all[1:] {
		form := o.brief
		if !o.bare {
			form += "="
		}
		forms = append(forms, form)
	}
	return all, fmt.Sprintf("on, off, or a list of %s, separated by commas", joinWords(forms, "and"))
}

// joinWords writes a list as "a, b and c".
func joinWords(words []string, conjunction string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}

// readPart returns the text of a file between two strings.
func readPart(t *testing.T, path, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(readText(t, path), from)
	part, _, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s: there is no text between %q and %q", path, from, to)
	}
	return part
}
