// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "preemptd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSources(t *testing.T) {
	file := writeFile(t, "interval: 1m\nmax_actions: 3\ngrace: 1m\npolicies: [drain, tiers]\nrules:\n  min_run: 1d12h\npolicy:\n  memory: 2GiB\n")
	c, err := Load(file, []string{"SINGULARITY_SLURM_PREEMPTD_MAX_ACTIONS=4", "SINGULARITY_SLURM_PREEMPTD_GRACE=2m"}, map[string]string{"grace": "3m"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Interval != time.Minute || c.MaxActions != 4 || c.Grace != 3*time.Minute || c.Rules.MinRun != 36*time.Hour || c.Policy.Memory != 2<<30 ||
		!reflect.DeepEqual(c.Policies, []string{"drain", "tiers"}) || c.Promised.Premium != 95 || c.ProxydPort != "6830" {
		t.Errorf("Load = %+v", c)
	}
	if where := c.values["grace"].Source; where != "--grace" {
		t.Errorf("grace comes from %s", where)
	}
}

// TestOldName shows that files and variables may have the name that a key had in an older
// release, and that the name of today counts more.
func TestOldName(t *testing.T) {
	const variable = "SINGULARITY_SLURM_PREEMPTD_PATIENCE_"
	for name, tt := range map[string]struct {
		text, environ string
		want          time.Duration
	}{
		"in a file":      {"patience:\n  vacate: 3m\n", "", 3 * time.Minute},
		"in a variable":  {"", variable + "VACATE=4m", 4 * time.Minute},
		"both in a file": {"patience:\n  leave: 5m\n  vacate: 3m\n", "", 5 * time.Minute},
		"neither":        {"", "", 10 * time.Minute},
	} {
		c, err := Load(writeFile(t, tt.text), []string{tt.environ}, nil)
		if err != nil || c.Patience.Leave != tt.want {
			t.Errorf("Load with %s = %+v, %v, want %s", name, c, err, tt.want)
		}
	}
}

func TestWrong(t *testing.T) {
	for text, said := range map[string]string{
		"intervall: 5s":                         "FILE: intervall: no such key; did you mean interval?",
		"min_run: 5m":                           "FILE: min_run: no such key; did you mean rules.min_run?",
		"zzz: 1":                                "FILE: zzz: no such key; `preemptd config` lists all",
		"rules: 5":                              "FILE: rules: want a section, with keys window, min_run, cool_down",
		"interval: {a: 1}":                      "FILE: interval: want a value, found a section",
		"interval: [1s]":                        "FILE: interval: want one value, found a list",
		"interval: 1":                           `FILE: interval: "1": want a time as in 30s, 10m, 2h or 7d`,
		"interval: 10ms":                        `FILE: interval: "10ms": want at least 1s`,
		"max_actions: 0":                        `want a number from 1 to 10000`,
		"slurmrestd: localhost":                 `want unix:/PATH, http://HOST:PORT or https://HOST:PORT`,
		"slurmrestd: http://ctl:6820":           "token.file: missing; slurmrestd at http://ctl:6820 wants a token",
		"policies: [a, a]":                      "want names, each once, separated by commas",
		"policies: [../x]":                      "want names, each once, separated by commas",
		"policy: {memory: much}":                "want a size as in 500M, 20G or 1T, or 0",
		"log: {level: loud}":                    "want debug, info, warn or error",
		"log: {format: xml}":                    `log.format: "xml": want text or json`,
		"log_level: info":                       "log_level: no such key; did you mean log.level?",
		"metrics: {address: 9100}":              `metrics.address: "9100": want HOST:PORT or :PORT`,
		"pause_at: park":                        "FILE: pause_at: no such key; `preemptd config` lists all",
		"journal: here.db":                      "want an absolute path",
		"listen: 6831":                          `listen: "6831": want HOST:PORT or :PORT`,
		"web: {address: 6832}":                  `web.address: "6832": want HOST:PORT or :PORT`,
		"web: {tls_cert: /x}":                   "web.tls_cert, web.tls_key: one without the other",
		"operators: [a b]":                      "want users, and groups as @name",
		"proxyd_port: 99999":                    "want a number from 1 to 65535",
		"interval: 5s\n  x: 1":                  "yaml",
		"interval: x\nretention: y\nfoo: bar\n": `retention: "y": want a time`,
	} {
		file := writeFile(t, text)
		_, err := Load(file, nil, nil)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), file, "FILE"), said) {
			t.Errorf("Load of %q: %v, want %s", text, err, said)
		}
	}
	_, err := Load(writeFile(t, ""), []string{Environment("rules.window") + "=never"}, nil)
	if err == nil || !strings.Contains(err.Error(), `SINGULARITY_SLURM_PREEMPTD_RULES_WINDOW: rules.window: "never": want`) {
		t.Error(err)
	}
	_, err = Load(writeFile(t, ""), nil, map[string]string{"rules.window": "never"})
	if err == nil || !strings.Contains(err.Error(), `--rules-window: rules.window: "never": want`) {
		t.Error(err)
	}
}

// A user with the right to write the file could have root run any program.
func TestWritable(t *testing.T) {
	file := writeFile(t, "")
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil, nil); err == nil || !strings.Contains(err.Error(), "not writable by others") {
		t.Error(err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil, nil); err == nil {
		t.Error("Load of a file that is not there returned no error")
	}
}

// The output of Explain, read as a configuration, has the same effect.
func TestExplain(t *testing.T) {
	c, err := Load(writeFile(t, "interval: 1m\npolicies: [a, b]\nrules: {window: 2d}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Explain(&b); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"as it is": b.String(), "with the defaults": strings.NewReplacer("\n#", "\n", "\n  #", "\n  ").Replace(uncommentLines(b.String()))} {
		again, err := Load(writeFile(t, text), nil, nil)
		if err != nil {
			t.Fatalf("Load of Explain's output %s: %v\n%s", name, err, text)
		}
		a, b := *c, *again
		a.values, b.values = nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Errorf("Explain's output %s makes\n%+v\n%+v", name, a, b)
		}
	}
}

// uncommentLines drops explaining lines, and keeps values that are commented out.
func uncommentLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "# ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestNeedsRestart(t *testing.T) {
	load := func(text string) *Config {
		c, err := Load(writeFile(t, text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if all := load("").NeedsRestart(load("interval: 1m\njournal: /x.db\ntoken: {user: a}\n")); !reflect.DeepEqual(all, []string{"token.user", "journal"}) {
		t.Errorf("NeedsRestart = %q, want token.user and journal", all)
	}
}
