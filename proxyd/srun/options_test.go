// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	for _, tc := range []struct {
		release, line string
		opts          string // as srun would be called with long options only
		rest          string
	}{
		{"", "hostname -f", "", "hostname -f"},
		{"", "-n4 -N 2 --exact a -n5", "--ntasks=4 --nodes=2 --exact", "a -n5"},
		{"", "-lun4 a", "--label --unbuffered --ntasks=4", "a"},
		{"", "-ln 4 a", "--label --ntasks=4", "a"},
		{"", "-K -k a", "--kill-on-bad-exit --no-kill", "a"},
		{"", "-K1 -Il a", "--kill-on-bad-exit=1 --immediate=l", "a"},
		{"", "--kill-on-bad-exit 1 a", "--kill-on-bad-exit", "1 a"},
		{"", "--ntasks -4 a", "--ntasks=-4", "a"},
		{"", "--nodel=n[1-2] a", "--nodelist=n[1-2]", "a"},
		{"", "--nodel n1 a", "--nodelist=n1", "a"},
		{"", "--no n1 a", "", "--no n1 a"}, // nodes, nodelist, no-kill, …
		{"", "--tasks-per-node=2 --cpu_bind=none a", "--tasks-per-node=2 --cpu_bind=none", "a"},
		{"", "--ntasks-per-n=2 a", "--ntasks-per-node=2", "a"},
		{"", "--exact=1 a", "", "--exact=1 a"},
		{"", "-y a", "", "-y a"},
		{"", "-n", "", "-n"},
		{"", "--ntasks", "", "--ntasks"},
		{"", "-n4 -- -n5 a", "--ntasks=4", "-- -n5 a"},
		{"", "-n4 - a", "--ntasks=4", "- a"},
		{"", "--mine=x -n4 a", "--mine=x --ntasks=4", "a"},
		{"", "--mine -n4 a", "--mine --ntasks=4", "a"},
		{"", "-n4", "--ntasks=4", ""},
		{"", "", "", ""},
		{"22.05.8", "--pty=3 a", "", "--pty=3 a"},
		{"24.11.5", "--pty=3 a", "--pty=3", "a"},
		{"22.05", "--wait 5 a", "--wait=5", "a"},
		{"22.05", "--container x a", "--container=x", "a"},
		{"22.05", "--containe x a", "--container=x", "a"},
		{"24.11", "--containe x a", "", "--containe x a"}, // container-id too
		{"22.05", "--uid 7 a", "--uid=7", "a"},
		{"26.05", "--uid 7 a", "--uid", "7 a"},
	} {
		opts, rest := NewTable(tc.release).parseWords(strings.Fields(tc.line))
		var long []string
		for _, g := range opts {
			g.raw = nil
			long = append(long, g.asWords()...)
		}
		if got := strings.Join(long, " "); got != tc.opts || strings.Join(rest, " ") != tc.rest {
			t.Errorf("%s %q: got %q, %q, want %q, %q", tc.release, tc.line, got, rest, tc.opts, tc.rest)
		}
	}
}

func TestLearn(t *testing.T) {
	table := NewTable("26.05")
	table.Learn([]byte(`Options:
      --no-plugin=x           not among the plugins' options
  -V, --version               output version information and exit

Options provided by plugins:
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
                              [pyxis] the image to use
      --container-mount-home  [pyxis] --bind-mount=x is not an option
      --singularity=[LIST]    protect it
      --tier=NAME             a tier
      --level[=N]             a level
      --nodes=N               cannot be a plugin's
`))
	for name, want := range map[string]Argument{"container-mount-home": None, "singularity": Optional, "tier": Required, "level": Optional} {
		if o := table.long[name]; o == nil || o.Arg != want {
			t.Errorf("option %s learned from the help = %+v", name, o)
		}
	}
	for _, name := range []string{"no-plugin", "bind-mount"} {
		if table.long[name] != nil {
			t.Errorf("--%s is no plugin's", name)
		}
	}
	if o := table.long["nodes"]; o.Short != 'N' {
		t.Errorf("after Learn, option nodes = %+v, want srun's own", o)
	}
}

func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"":                      "",
		"a":                     "a",
		"a,b;c d\ne":            "a b c d e",
		"n[1-3,5]":              "n1 n2 n3 n5",
		"n[08-11]x":             "n08x n09x n10x n11x",
		"r[1-2]n[1-2],z":        "r1n1 r1n2 r2n1 r2n2 z",
		"n1,n1,n[1,1]":          "n1 n1 n1 n1",
		"n[3-1]":                "not",
		"n[1":                   "not",
		"n1]":                   "not",
		"n[]":                   "not",
		"n[a-b]":                "not",
		"n[1-]":                 "not",
		"n[0-99999999]":         "not",
		"n[0-999]n[0-999]":      "not",
		"n[0-40000],m[0-40000]": "not",
		"n[1-99999999999999]":   "not",
	} {
		names, err := expandHosts(list)
		if want == "not" {
			if err == nil {
				t.Errorf("%q: got %d names", list, len(names))
			}
			continue
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("expandHosts(%q) = %q, %v", list, names, err)
		}
	}
}

func TestTranslate(t *testing.T) {
	nodes := map[string]string{"n1": "n7", "n2": "n2", "n3": "n7"}
	for _, tc := range []struct {
		list  string
		again bool
		want  string
	}{
		{"n1", false, "n7"},
		{"n[1-3]", false, "n7,n2"},
		{"n[1-3]", true, "n7,n2,n7"},
		{"n[2,4-5]", false, "n[2,4-5]"},
		{"n[1", false, "n[1"},
		{"", false, ""},
	} {
		if got := translateHosts(tc.list, nodes, tc.again); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.list, got, tc.want)
		}
	}
}

// FuzzRewrite: for any words, srun's program and its arguments stay, and no call is made without its layout.
func FuzzRewrite(f *testing.F) {
	for _, line := range []string{"-n4 a b", "-wn1 --exclude n[1-2] -- -x", "--export=NONE a : -N1 b", "-lm block a", "--", "-w n[1-99999999999] a"} {
		f.Add(line, "n1=n2", false)
		f.Add(line, "", true)
	}
	f.Fuzz(func(t *testing.T, line, node string, laid bool) {
		words := strings.Split(line, " ")
		r := RewriteParameters{Key: "s1"}
		if old, now, ok := strings.Cut(node, "="); ok {
			r.Nodes = map[string]string{old: now}
		}
		if laid {
			r.Tasks = []string{"n1", "n2"}
		}
		c := &Call{Args: append([]string{"srun"}, words...), Env: []string{"A=b"}}
		cmd, err := c.Rewrite(r, func(string) ([]byte, error) { return []byte("n1\n"), nil })
		if err != nil {
			return
		}
		parts := splitComponents(NewTable(""), words)
		got := splitComponents(NewTable(""), cmd.Args[1:])
		if len(parts) != len(got) {
			t.Fatalf("call %q became %q, with another number of components", words, cmd.Args)
		}
		for i := range parts {
			if !slices.Equal(parts[i].rest, got[i].rest) {
				t.Fatalf("call %q became %q, with another program", words, cmd.Args)
			}
			if laid && !asksForHelp(parts[i].opts) && !strings.Contains(fmt.Sprint(cmd.Args), "--distribution=arbitrary") {
				t.Fatalf("call %q became %q, without the layout", words, cmd.Args)
			}
		}
	})
}
