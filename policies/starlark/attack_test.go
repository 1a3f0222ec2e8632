// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/policy"
)

// patience is how long a test waits for an answer that must come, on a busy machine.
const patience = 2 * time.Minute

const good = "def decide(c):\n    return [hold(j, \"full\") for j in c.jobs if j.state == \"waiting\"]\n"

// startPolicy starts the policy in its process, like preemptd, with a file that can be written.
// limit changes how long the policy may take.
func startPolicy(t *testing.T) (p *policy.Policy, write func(text string), limit func(time.Duration)) {
	t.Helper()
	folder := sdktest.BuildFolder(t, "starlark")
	number := 0
	write = func(text string) {
		t.Helper()
		number++ // an editor replaces the file
		name := filepath.Join(folder, fmt.Sprint("new", number))
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Rename(name, filepath.Join(folder, "policy.star"))); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	configs, err := policy.Site{Folder: folder, Settings: folder, Timeout: patience, Memory: 256 << 20}.Configs([]string{"starlark"})
	if err != nil {
		t.Fatal(err)
	}
	p = policy.New(configs[0], slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	return p, write, func(d time.Duration) {
		c := configs[0]
		c.Timeout = d
		p.Configure(c)
	}
}

// A file that is saved is in force at the next question, if the file is right; else the file before stays in force,
// and the mistake in the new file is reported with its line and column.
func TestSavedFiles(t *testing.T) {
	p, write, _ := startPolicy(t)
	ask := func() (int, sdk.Verb) {
		t.Helper()
		got, err := p.Ask(t.Context(), sdk.Encode(busySnapshot()))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return 0, 0
		}
		return len(got), got[0].Verb
	}
	held, verb := ask()
	if held == 0 || verb != sdk.Hold {
		t.Fatalf("the file made %d intents of %v, want a hold", held, verb)
	}
	write("def decide(c):\n    return [hold(j, \"full\") for j in c.jobs if j.state == \"wating\"]\n")
	if again, verb := ask(); again != held || verb != sdk.Hold {
		t.Errorf("a wrong file decides: %d of %v", again, verb)
	}
	if problem, want := p.Status().Problem, `policy.star:2:59: a job's .state is never "wating"`; !strings.Contains(problem, want) {
		t.Errorf("the problem is %q, want %q", problem, want)
	}
	write("def decide(c):\n    return [preempt(c.jobs[0], \"changed\")]\n")
	if n, verb := ask(); n != 1 || verb != sdk.Preempt {
		t.Errorf("the changed file is not in force: %d of %v", n, verb)
	}
	if problem := p.Status().Problem; problem != "" {
		t.Errorf("a problem is left: %s", problem)
	}
}

// TestAttacks has files do their worst in a decision, with code that the check before a run cannot see through. Each
// is ended, and a good file that is saved then decides at once. The bound on memory is the kernel's: the kernel kills
// a process above the bound.
func TestAttacks(t *testing.T) {
	p, write, limit := startPolicy(t)
	for name, body := range map[string]string{
		"a loop of steps":              "[i for i in range(1 << 60)]",
		"a loop in one step":           "list(range(1 << 60))",
		"a huge list":                  "[0] * (1 << 26) + [1] * (1 << 26)",
		"a huge text":                  "len(\"x\" * ((1 << 30) - 1))",
		"a text that doubles":          "double(\"x\", 40)",
		"recursion":                    "recurse(c)",
		"recursion by a value":         "(lambda f: f(f))(lambda f: f(f))",
		"nesting":                      "nest(1 << 22)",
		"a flood of intents":           "[hold(i, \"x\" * 1000) for i in range(1 << 20)]",
		"a flood of output":            "[print(\"x\" * 100000) for i in range(100000)]",
		"another file":                 "open(\"/etc/passwd\")",
		"an attribute of the machine":  "getattr(c, \"__class__\")",
		"a change of the snapshot":     "c.jobs[0].append(1)",
		"an answer that is no intents": "{}.setdefault",
	} {
		write(good)
		if _, err := p.Ask(t.Context(), sdk.Encode(busySnapshot())); err != nil {
			t.Fatalf("a good file, before %s: %v", name, err)
		}
		write(`
def double(s, n):
    for i in range(n):
        s += s
    return len(s)

def recurse(c):
    return recurse(c)

def nest(n):
    x = []
    for i in range(n):
        x = [x]
    return str(x)

def decide(c):
    if c.name == "sample":
        return []
    return ` + body + "\n")
		limit(time.Second)
		began := time.Now()
		_, err := p.Ask(t.Context(), sdk.Encode(busySnapshot()))
		var failure *policy.Failure
		limit(patience)
		problem := p.Status().Problem
		switch {
		case err == nil && strings.Contains(problem, "does not start"): // the mistake was seen before
		case errors.As(err, &failure):
		default:
			t.Errorf("%s: it decided, or %v", name, err)
		}
		t.Logf("%-30s %6.2f s: %.150s", name, time.Since(began).Seconds(), problem)
	}
	write(good)
	if got, err := p.Ask(t.Context(), sdk.Encode(busySnapshot())); err != nil || len(got) == 0 {
		t.Errorf("after all that: %v, %v", got, err)
	}
}
