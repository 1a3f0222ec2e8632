// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// soundController is a controller without a fault; its user is the token's.
func soundController() *Controller {
	return &Controller{
		Slurmrestd: "http://ctl:6820",
		Token:      func() (string, string, error) { return "rest", "token", nil },
		Ping:       func(context.Context) error { return nil },
		Run: func(_ context.Context, _ string, args ...string) (string, error) {
			switch line := strings.Join(args, " "); {
			case strings.Contains(line, "show config"):
				return "PreemptType             = preempt/none\nSlurmUser               = slurm(64030)\n", nil
			case strings.Contains(line, "show user name=rest"):
				return "Operator\n", nil
			case strings.Contains(line, "show user"):
				return "None\n", nil
			case strings.Contains(line, "show cluster"):
				return "mini\n", nil
			}
			return "", errors.New("unexpected command")
		},
		Scontrol: "scontrol", Sacctmgr: "sacctmgr",
		Journal:  func(context.Context) error { return nil },
		Policies: func() []*rpc.Policy { return []*rpc.Policy{{Name: "tiers", Running: true}} },
		Nodes:    func(context.Context) ([]string, error) { return []string{"n1", "n2"}, nil },
		Knock:    func(context.Context, string) (string, error) { return "", nil },
	}
}

func TestExamine(t *testing.T) {
	fails := errors.New("it does not answer")
	for _, tt := range []struct {
		name   string
		breaks func(*Controller)
		want   string // "NAME LEVEL: FOUND" of the findings that are not ok; "": all are ok
		do     string
	}{
		{"sound", func(*Controller) {}, "", ""},
		{"no operator", func(c *Controller) { c.Token = func() (string, string, error) { return "daemon", "token", nil } },
			"slurm: rights FAIL: user daemon, as whom slurmrestd acts, may not operate on other users' jobs, so Slurm refuses each action", "sacctmgr modify user daemon set adminlevel=Operator"},
		{"root", func(c *Controller) { c.Token = func() (string, string, error) { return "root", "token", nil } }, "", ""},
		{"SlurmUser", func(c *Controller) { c.Token = func() (string, string, error) { return "slurm", "token", nil } }, "", ""},
		{"slurmrestd is away", func(c *Controller) { c.Ping = func(context.Context) error { return fails } }, "slurmrestd FAIL: it does not answer", "start slurmrestd"},
		{"Slurm preempts", func(c *Controller) {
			c.Run = replaceAnswer(c.Run, "show config", "PreemptType = preempt/qos\nSlurmUser = slurm(1)\n", nil)
		},
			"slurm: preemption WARN: Slurm's own is on (PreemptType=preempt/qos): Slurm preempts first, and whole jobs", "PreemptType=preempt/none"},
		{"Slurm preempts, and nothing here does", func(c *Controller) {
			c.Run = replaceAnswer(c.Run, "show config", "PreemptType = preempt/qos\nSlurmUser = slurm(1)\n", nil)
			c.Policies = func() []*rpc.Policy { return nil }
		}, "", ""},
		{"slurmdbd knows no cluster", func(c *Controller) { c.Run = replaceAnswer(c.Run, "show cluster", "", nil) }, "slurm: database WARN: slurmdbd answers, and knows no cluster", "sacctmgr add cluster"},
		{"slurmdbd is away", func(c *Controller) { c.Run = replaceAnswer(c.Run, "show cluster", "", fails) }, "slurm: database WARN: it does not answer", "start slurmdbd"},
		{"QOS of leases", func(c *Controller) {
			c.LeaseQOS, c.Run = "spare", replaceAnswer(c.Run, "show qos name=spare", "spare\n", nil)
		}, "", ""},
		{"no QOS of leases", func(c *Controller) { c.LeaseQOS, c.Run = "spare", replaceAnswer(c.Run, "show qos name=spare", "", nil) },
			"slurm: leases WARN: Slurm has no QOS spare: jobs that grow are requeued, for no job can lend them GPUs", "sacctmgr add qos spare"},
		{"journal", func(c *Controller) { c.Journal = func(context.Context) error { return fails } }, "journal FAIL: it does not answer", "journal"},
		{"a policy", func(c *Controller) {
			c.Policies = func() []*rpc.Policy { return []*rpc.Policy{{Name: "tiers", Problem: "it has no settings"}} }
		}, "policies FAIL: tiers: it has no settings", "singctl policy list"},
		{"a node", func(c *Controller) {
			c.Knock = func(_ context.Context, node string) (string, error) {
				if node == "n2" {
					return "", fails
				}
				return "", nil
			}
		}, "nodes WARN: 1 of 2 proxyds do not answer: n2", "systemctl status proxyd"},
		{"a node, and the shared folder of another", func(c *Controller) {
			c.Knock = func(_ context.Context, node string) (string, error) {
				if node == "n2" {
					return "", fails
				}
				return "the shared folder is not there", nil
			}
		}, "nodes WARN: 1 of 2 proxyds do not answer: n2; n1: the shared folder is not there", "singctl doctor --node NODE"},
		{"all nodes", func(c *Controller) { c.Knock = func(context.Context, string) (string, error) { return "", fails } }, "nodes FAIL: no proxyd answers on any of 2 nodes", "proxyd_port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := soundController()
			tt.breaks(c)
			var got, do []string
			for _, f := range c.Examine(t.Context()) {
				if f.GetLevel() != rpc.Finding_OK {
					got, do = append(got, fmt.Sprintf("%s %s: %s", f.GetName(), f.GetLevel(), f.GetFound())), append(do, f.GetDo())
				}
			}
			if strings.Join(got, "; ") != tt.want || !strings.Contains(strings.Join(do, "; "), tt.do) {
				t.Errorf("found %q, do %q; want %q, do %q", got, do, tt.want, tt.do)
			}
		})
	}
}

// TestPreemptTypeInWords: where slurm.conf has no PreemptType, scontrol shows "(null)", and doctor names its meaning.
func TestPreemptTypeInWords(t *testing.T) {
	for value, want := range map[string]string{
		"preempt/none": "Slurm's own is off (PreemptType=preempt/none, or none in slurm.conf)",
		"(null)":       "Slurm's own is off (PreemptType=preempt/none, or none in slurm.conf)",
		"preempt/qos":  "Slurm's own is on (PreemptType=preempt/qos), and preemptd has no policy that preempts",
	} {
		c := soundController()
		c.Policies = func() []*rpc.Policy { return nil }
		c.Run = replaceAnswer(c.Run, "show config", "PreemptType = "+value+"\nSlurmUser = slurm(1)\n", nil)
		if f := c.checkPreemptType(t.Context()); f.GetLevel() != rpc.Finding_OK || f.GetFound() != want {
			t.Errorf("PreemptType=%s: %v; want ok, %q", value, f, want)
		}
	}
}

// replaceAnswer is run, with another answer to a single command.
func replaceAnswer(run func(context.Context, string, ...string) (string, error), to, out string, err error) func(context.Context, string, ...string) (string, error) {
	return func(ctx context.Context, program string, args ...string) (string, error) {
		if strings.Contains(strings.Join(args, " "), to) {
			return out, err
		}
		return run(ctx, program, args...)
	}
}

func TestTokenUser(t *testing.T) {
	token := "x." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1,"sun":"rest"}`)) + ".y"
	for token, want := range map[string]string{token: "rest", "": "", "x.y": "", "x.!.y": "", "x.e30.y": ""} {
		if got := tokenUser(token); got != want {
			t.Errorf("tokenUser(%q) = %q, want %q", token, got, want)
		}
	}
}
