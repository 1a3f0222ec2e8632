// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// loadText writes a file and reads it as a daemon would.
func loadText(t *testing.T, text string, environ ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proxyd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, environ)
	if err != nil {
		err = texter(strings.ReplaceAll(err.Error(), file, "FILE"))
	}
	return c, err
}

type texter string

func (s texter) Error() string { return string(s) }

func TestDefaults(t *testing.T) {
	c, err := loadText(t, "shared: /shared/singularity\nnode_name: n1\n")
	if err != nil {
		t.Fatal(err)
	}
	c.values = nil
	want := &Config{
		Shared: "/shared/singularity", KeyFile: "/etc/singularity-slurm/key", NodeName: "n1", Listen: ":6830",
		RunDir: "/run/singularity-slurm", LibDir: "/var/lib/singularity-slurm",
		Interval: Auto, NodeMTBF: 150 * 24 * time.Hour, ObstacleInterval: 5 * time.Minute, KillWaitMargin: 5 * time.Second, OnTimeLimit: "requeue", WithoutCheckpoint: "restart", OnFailure: "hold", RestoreAsRoot: "refuse", Outside: "reset",
		Keep: 2, KeepFor: 7 * 24 * time.Hour, Staging: Staging{Patience: 5 * time.Minute}, Devices: Devices{Kind: "none", Memory: 4 << 30, Capability: "10.0", Kernels: "compiled", Blas: "vendor"}, Network: Network{Range: netip.MustParsePrefix("100.64.0.0/10"), Mode: "auto", ShortPath: "auto"},
		Scontrol: "scontrol", Srun: "srun", Log: table.Log{Level: slog.LevelInfo},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if c.Port() != "6830" {
		t.Errorf("Port = %q, want 6830", c.Port())
	}
}

func TestFileAndEnvironment(t *testing.T) {
	c, err := loadText(t, `
shared: /a
operators: [operator, "@hpc"]
network:
  mode: vxlan
  range: 10.200.0.0/16
keep: 5
interval: 30m
log: {level: debug, format: json}
metrics: {address: "127.0.0.1:6833"}
`, "SINGULARITY_SLURM_NETWORK_MODE=route", "SINGULARITY_SLURM_KEEP_FOR=1d12h", "SINGULARITY_SLURM_STEP=x", "SINGULARITY_SLURM_KEEP=3", "SINGULARITY_SLURM_KEEP=4")
	if err != nil {
		t.Fatal(err)
	}
	if c.Network.Mode != "route" || c.Network.Range.String() != "10.200.0.0/16" || c.KeepFor != 36*time.Hour || c.Keep != 4 || c.Interval != 30*time.Minute ||
		c.Log != (table.Log{Level: slog.LevelDebug, JSON: true}) || c.Metrics.Address != "127.0.0.1:6833" || !reflect.DeepEqual(c.Operators, []string{"operator", "@hpc"}) {
		t.Errorf("configuration of file and environment = %+v", c)
	}
	if host, err := os.Hostname(); err == nil && !strings.HasPrefix(host, c.NodeName) {
		t.Errorf("node name %q on host %q", c.NodeName, host)
	}
}

// TestWrong: the error about a mistake names the mistake and the accepted form.
func TestWrong(t *testing.T) {
	const ok = "shared: /a\n"
	for _, tt := range []struct{ name, text, env, want string }{
		{"empty file", "", "", "FILE: shared: missing; name a folder that all nodes share, as in /shared/singularity"},
		{"unknown key", ok + "kep: 3\n", "", "FILE: kep: no such key; did you mean keep?"},
		{"key outside of its section", ok + "range: 10.0.0.0/8\n", "", "FILE: range: no such key; did you mean network.range?"},
		{"key in the wrong section", ok + "network:\n  modes: auto\n", "", "FILE: network.modes: no such key; did you mean network.mode?"},
		{"key of nothing", ok + "colour: blue\n", "", "FILE: colour: no such key; `proxyd config` lists all"},
		{"relative path", "shared: singularity\n", "", `FILE: shared: "singularity": want an absolute path`},
		{"time without unit", ok + "interval: 30\n", "", `FILE: interval: "30": want a time as in 30s, 10m, 2h or 7d, or 0, or auto`},
		{"time below 0", ok + "keep_for: -3d\n", "", `FILE: keep_for: "-3d": want a time as in 30s, 10m, 2h or 7d, or 0`},
		{"very often", ok + "interval: 1s\n", "", `FILE: interval: "1s": want 0, or at least 10s, or auto`},
		{"unknown choice", ok + "on_time_limit: kill\n", "", `FILE: on_time_limit: "kill": want requeue, hold or end`},
		{"number out of range", ok + "keep: 0\n", "", `FILE: keep: "0": want a number from 1 to 1000`},
		{"no number", ok + "keep: best\n", "", `FILE: keep: "best": want a number from 1 to 1000`},
		{"port alone", ok + "listen: 6830\n", "", `FILE: listen: "6830": want [ADDRESS]:PORT`},
		{"port 0", ok + "listen: \":0\"\n", "", `FILE: listen: ":0": want [ADDRESS]:PORT`},
		{"small network", ok + "network: {range: 10.0.0.0/28}\n", "", `FILE: network.range: "10.0.0.0/28": want an IPv4 network of at least 256 addresses, as in 100.64.0.0/10`},
		{"host bits", ok + "network: {range: 10.1.2.3/8}\n", "", `FILE: network.range: "10.1.2.3/8": want the network's own address: 10.0.0.0/8`},
		{"size without sense", ok + "staging: {size: 20X}\n", "", `FILE: staging.size: "20X": want a size as in 500M, 20G or 1T, or 0`},
		{"size too large", ok + "staging: {rate: 99999999T}\n", "", `FILE: staging.rate: "99999999T": want a size below 8 EiB`},
		{"little patience", ok + "staging: {patience: 1s}\n", "", `FILE: staging.patience: "1s": want 0, or at least 10s`},
		{"program with arguments", ok + "srun: srun -v\n", "", `FILE: srun: "srun -v": want a program's name or absolute path`},
		{"program by relative path", ok + "srun: bin/srun\n", "", `FILE: srun: "bin/srun": want a program's name or absolute path`},
		{"bad operator", ok + "operators: [a b]\n", "", `FILE: operators: "a b": want users, and groups as @name, separated by commas`},
		{"list for a value", ok + "keep: [1, 2]\n", "", "FILE: keep: want one value, found a list"},
		{"section for a value", ok + "keep: {a: 1}\n", "", "FILE: keep: want a value, found a section"},
		{"value for a section", ok + "network: auto\n", "", "FILE: network: want a section, with keys range, mode, device, short_path"},
		{"bad node name", ok + "node_name: \"n1 n2\"\n", "", `FILE: node_name: "n1 n2": want a node name as in slurm.conf`},
		{"environment", ok, "SINGULARITY_SLURM_KEEP=many", `SINGULARITY_SLURM_KEEP: keep: "many": want a number from 1 to 1000`},
		{"two mistakes", "shared: a\nkeep: x\n", "", "FILE: shared: \"a\": want an absolute path\nFILE: keep: \"x\": want a number from 1 to 1000"},
		{"no YAML", "shared: [\n", "", "FILE: yaml: line 1: did not find expected node content"},
		{"a key twice", "shared: /a\nshared: /b\n", "", "FILE: yaml: unmarshal errors:\n  line 2: mapping key \"shared\" already defined at line 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadText(t, tt.text, tt.env)
			if err == nil {
				t.Fatalf("the configuration was accepted: %+v", c)
			}
			if got := strings.TrimPrefix(err.Error(), "configuration: "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestNobodyElseWrites: a file that other users can write is refused, because it names programs
// that root runs.
func TestNobodyElseWrites(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of others")
	}
	file := filepath.Join(t.TempDir(), "proxyd.yaml")
	if err := os.WriteFile(file, []byte("shared: /a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		if _, err := Load(file, nil); err == nil || err.Error() != "configuration: "+file+want {
			t.Errorf("got  %v\nwant configuration: %s%s", err, file, want)
		}
	}
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	refused(": owned by user 0 with mode 0664; want root and not writable by others (chown root, chmod 644)")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 1001, 0); err != nil {
		t.Fatal(err)
	}
	refused(": owned by user 1001 with mode 0644; want root and not writable by others (chown root, chmod 644)")
	if _, err := Load("/nowhere/proxyd.yaml", nil); err == nil || err.Error() != "configuration: open /nowhere/proxyd.yaml: no such file or directory" {
		t.Errorf("Load without a file: %v", err)
	}
}

// TestExplained: the output of Explain is a configuration, and has every key.
func TestExplained(t *testing.T) {
	var b bytes.Buffer
	if err := Explain(&b); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys {
		last := k.Name[strings.LastIndexByte(k.Name, '.')+1:]
		if !strings.Contains(b.String(), last+": ") || !strings.Contains(b.String(), keys.Variable(k.Name)+")") {
			t.Errorf("%s is not explained", k.Name)
		}
	}
	c, err := loadText(t, b.String())
	if err != nil {
		t.Fatalf("read the output of Explain: %v\n%s", err, b.String())
	}
	d, err := loadText(t, "shared: /shared/singularity\n")
	if err != nil {
		t.Fatal(err)
	}
	c.values, d.values = nil, nil
	if !reflect.DeepEqual(c, d) {
		t.Errorf("as explained: %+v\nby default:   %+v", c, d)
	}
	// With the comment signs of all keys removed, the file means the same.
	c, err = loadText(t, regexp.MustCompile(`(?m)^( *)#([^ ])`).ReplaceAllString(b.String(), "$1$2"))
	if err != nil {
		t.Fatal(err)
	}
	if c.values["keep"].Source == "default" {
		t.Error("keep is still in a comment")
	}
	c.values = nil
	if !reflect.DeepEqual(c, d) {
		t.Errorf("all written:  %+v\nby default:   %+v", c, d)
	}
}

func TestEffective(t *testing.T) {
	c, err := loadText(t, "shared: /a\noperators: [x, \"@y\"]\nnetwork: {mode: vxlan}\n", "SINGULARITY_SLURM_KEEP=9", `SINGULARITY_SLURM_NETWORK_DEVICE=e"th`)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Explain(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "# (from environment; SINGULARITY_SLURM_KEEP)\nkeep: 9\n") {
		t.Errorf("keep is not there:\n%s", b.String())
	}
	again, err := loadText(t, b.String())
	if err != nil {
		t.Fatalf("read the output of Explain: %v\n%s", err, b.String())
	}
	c.values, again.values = nil, nil
	if !reflect.DeepEqual(c, again) {
		t.Errorf("read back: %+v\nwas:       %+v", again, c)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "17": 17, "500M": 500 << 20, "20G": 20 << 30, "20GiB": 20 << 30, "1T": 1 << 40, "3K": 3072} {
		c, err := loadText(t, "shared: /a\nstaging: {size: "+text+"}\n")
		if err != nil || c.Staging.Size != want {
			t.Errorf("%s: %d, %v; want %d", text, c.Staging.Size, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("shared: /a\nnetwork:\n  mode: auto\n"), "SINGULARITY_SLURM_KEEP=3")
	f.Add([]byte("? {a: b}\n: c\n"), "")
	f.Add([]byte("network.mode: auto\nnetwork: {mode: vxlan}\n"), "")
	f.Fuzz(func(t *testing.T, text []byte, env string) {
		c, err := parseConfig("FILE", text, []string{env})
		if (c == nil) == (err == nil) {
			t.Fatalf("parseConfig = %+v, %v; want a configuration or an error", c, err)
		}
		if c == nil {
			return
		}
		var b bytes.Buffer
		if err := c.Explain(&b); err != nil {
			t.Fatal(err)
		}
		again, err := parseConfig("FILE", b.Bytes(), nil)
		if err != nil {
			t.Fatalf("read the output of Explain: %v\n%s", err, b.String())
		}
		c.values, again.values = nil, nil
		if !reflect.DeepEqual(c, again) {
			t.Errorf("read back: %+v\nwas:       %+v\n%s", again, c, b.String())
		}
	})
}
