// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

var update = flag.Bool("update", false, "write what commands print into the scripts")

// cluster is n1 and n2, each with the real server and a fake conductor behind it; n3 is
// down. A fake preemptd controls them. Slurm's commands are the scripts in testdata/bin.
type cluster struct {
	realm *mungetest.Realm
	port  string
	two   *apitest.Conductor // of n2
	// controller is where preemptd listens.
	controller string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	bin, err := filepath.Abs("testdata/bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	c := &cluster{realm: mungetest.NewRealm(), two: apitest.New()}
	_, c.port, _ = net.SplitHostPort(c.serveNode(t, "n1", "127.0.0.1:0", apitest.New()))
	c.controller = serveController(t, c)
	c.serveNode(t, "n2", "127.0.0.2:"+c.port, onN2{c.two})
	return c
}

func (c *cluster) serveNode(t *testing.T, node, address string, conductor api.Conductor) string {
	t.Helper()
	findings := []host.Finding{{Name: "kernel", Level: host.OK, Found: "Linux 6.18", Needs: "Linux"}}
	findings = append(findings, host.Finding{Name: "key", Level: host.OK, Found: "there, 1b2c", Needs: "a key", Fingerprint: map[string]string{"n1": "1b2c", "n2": "77aa"}[node]})
	if node == "n1" {
		findings = append(findings,
			host.Finding{Name: "slurm: killwait", Level: host.Warn, Found: "30s; capturing a job took 20s", Needs: "KillWait of more than a checkpoint takes", Do: "set KillWait=45 in slurm.conf"},
			host.Finding{Name: "criu", Level: host.Fail, Found: "criu 3.17.1", Needs: "criu 4.2 or newer", Do: "install it"})
	}
	server := api.NewServer(api.Options{
		Node: node, Version: "1.0", SlurmUser: apitest.SlurmUser, Operators: []string{"nobody"}, Keep: 2, Conductor: conductor,
		Doctor: func(context.Context, bool) []host.Finding { return findings },
	}, c.realm.As(0, 0))
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// Before any goroutine asks for the time.
func init() { time.Local = time.UTC }

// people of the scripts; "operator" is a user that every machine has.
var people = map[string]uint32{"root": 0, "alice": apitest.Alice, "bob": apitest.Bob, "carol": 1009, "operator": 65534}

func (c *cluster) newApp(who string, out, errs io.Writer) *app {
	return &app{
		stdout: out, stderr: errs, now: func() time.Time { return apitest.Then },
		coder: c.realm.As(people[who], people[who]), port: c.port, here: "n1", controller: c.controller,
	}
}

// runLine runs a single command line and returns its output as a terminal would show it: standard error is marked by
// "! ".
func (c *cluster) runLine(ctx context.Context, who string, args ...string) string {
	var out, errs bytes.Buffer
	code := c.newApp(who, &out, &errs).runCommand(ctx, args)
	var b strings.Builder
	b.Write(out.Bytes())
	for l := range strings.Lines(errs.String()) {
		b.WriteString("! " + l)
	}
	if code != 0 {
		fmt.Fprintf(&b, "exit %d\n", code)
	}
	return strings.NewReplacer(":"+c.port, ":PORT", c.controller, "CONTROLLER").Replace(b.String())
}

// TestScripts runs each line "USER$ singctl …" of testdata/*.txt and compares the lines
// below with the output. -update writes the lines.
func TestScripts(t *testing.T) {
	c := newCluster(t)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := c.playScript(t, string(text))
			if strings.Contains(got, "\x1b") {
				t.Error("the output has escape sequences, though it is no terminal")
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("not as in %s (go test -update shows the difference in git):\n%s", file, firstDifference(string(text), got))
			}
		})
	}
}

// playScript returns the script with the output of its commands.
func (c *cluster) playScript(t *testing.T, script string) string {
	var b strings.Builder
	for l := range strings.Lines(script) {
		who, command, ok := strings.Cut(strings.TrimSuffix(l, "\n"), "$ singctl ")
		if strings.HasPrefix(l, "#") {
			b.WriteString(l)
			continue
		}
		if _, known := people[who]; !ok || !known {
			continue // printed by a command
		}
		b.WriteString(l + c.runLine(t.Context(), who, splitWords(command)...))
	}
	return b.String()
}

// splitWords splits at spaces outside of quotes.
func splitWords(s string) []string {
	var list []string
	quoted := false
	for _, w := range strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	}) {
		list = append(list, strings.Trim(w, `"`))
	}
	return list
}

// firstDifference shows the first line that differs, in its place.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			from := max(i-3, 0)
			return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1,
				strings.Join(w[min(from, len(w)):min(i+4, len(w))], "\n"), strings.Join(g[min(from, len(g)):min(i+4, len(g))], "\n"))
		}
	}
	return ""
}
