// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build live

package slurmrest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// The live test runs on the controller of a minicluster, as root:
//
//	CGO_ENABLED=0 go test -c -tags live -o X ./slurmrestd-client
//	cp X into the cluster's /shared
//	minicluster exec ctl -- /shared/X -test.v
//
// The test asks every verb of the real slurmrestd, in each version served, and
// looks at the effect with Slurm's own commands or the client itself.
var (
	socketFlag = flag.String("rest.socket", "unix:/run/slurmrestd/slurmrestd.sock", "slurmrestd with rest_auth/local")
	urlFlag    = flag.String("rest.url", "http://ctl:6820", "slurmrestd with rest_auth/jwt")
)

// requeueExit is RequeueExit= of the minicluster's slurm.conf.
const requeueExit = 123

// patience is the time that a state may take to be reached, on two cores that three clusters share.
const patience = 45 * time.Second

// TestMain runs only the live tests, or the recorder: other tests need testdata, which is not on
// the controller.
func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run").Value; *recordFlag != "" {
		_ = run.Set("^TestRecord$")
	} else if run.String() == "" {
		_ = run.Set("^TestLive")
	}
	if err := prepareUser(); err != nil {
		fmt.Fprintln(os.Stderr, "live test:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prepareUser makes slurmrestd's user an operator: over its unix socket every request is made as
// that user.
func prepareUser() error {
	added, _ := exec.Command("sacctmgr", "-i", "add", "user", "slurmrestd", "account=root", "adminlevel=operator").CombinedOutput()
	level, err := exec.Command("sacctmgr", "-nP", "show", "user", "slurmrestd", "format=admin").CombinedOutput()
	if err != nil || strings.TrimSpace(string(level)) != "Operator" {
		return fmt.Errorf("user slurmrestd is no operator: %s%s: %w", added, level, err)
	}
	return nil
}

// runCommand runs one of Slurm's commands and returns the output.
func runCommand(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: output %s: %v", name, strings.Join(args, " "), out, err)
	}
	return strings.TrimSpace(string(out))
}

// tokenFile writes a token of the user's to a file.
func tokenFile(t *testing.T, user string, life time.Duration) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, user, life)
	return path
}

func writeToken(t *testing.T, path, user string, life time.Duration) {
	t.Helper()
	token := runCommand(t, "scontrol", "token", "username="+user, fmt.Sprintf("lifespan=%d", int(life.Seconds())))
	if err := os.WriteFile(path+".new", []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// newClient returns a client with a deadline for each of its requests.
func newClient(t *testing.T, cfg slurmrest.Config) *slurmrest.Client {
	t.Helper()
	cfg.Timeout = patience
	c, err := slurmrest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// rootConfig is TCP with a token of root's.
func rootConfig(t *testing.T, versions ...string) slurmrest.Config {
	return slurmrest.Config{
		Address:     *urlFlag,
		Token:       slurmrest.TokenFile(tokenFile(t, "root", time.Hour), "root"),
		Versions:    versions,
		Scontrol:    slurmrest.ExecScontrol{},
		RequeueExit: requeueExit,
	}
}

// servedVersions returns the versions that this server and the client both know.
func servedVersions(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, version := range []string{slurmrest.V0038, slurmrest.V0040, slurmrest.V0042, slurmrest.V0045} {
		_, err := newClient(t, rootConfig(t, version)).Version(t.Context())
		if err == nil {
			all = append(all, version)
		} else if !errors.Is(err, slurmrest.ErrUnsupported) {
			t.Fatalf("negotiation of version %s: %v; want success or ErrUnsupported", version, err)
		}
	}
	if len(all) == 0 {
		t.Fatal("the server serves none of our versions")
	}
	return all
}

// live is a single client under test and the user that submits for the client.
type live struct {
	*testing.T
	root  *slurmrest.Client // an operator
	alice *slurmrest.Client // a user
}

// waitFor calls look until ok; after the patience of a test it fails with the text seen last.
func (l *live) waitFor(what string, look func(ctx context.Context) (seen string, ok bool)) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	for {
		seen, ok := look(ctx)
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			l.Fatalf("%s: not in %s; last seen: %s", what, patience, seen)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// readJob returns the record of a job.
func (l *live) readJob(ref slurmrest.Ref) slurmrest.Job {
	l.Helper()
	j, err := l.root.Job(l.Context(), ref)
	if err != nil {
		l.Fatal(err)
	}
	return j
}

// waitForJob waits until a job is as expected.
func (l *live) waitForJob(ref slurmrest.Ref, what string, is func(slurmrest.Job) bool) slurmrest.Job {
	l.Helper()
	var j slurmrest.Job
	l.waitFor(fmt.Sprintf("job %s: %s", ref, what), func(ctx context.Context) (string, bool) {
		var err error
		j, err = l.root.Job(ctx, ref)
		return fmt.Sprintf("%s reason=%s restarts=%d held=%v nodes=%s err=%v",
			j.State, j.Reason, j.Restarts, j.Held, j.Nodes, err), err == nil && is(j)
	})
	return j
}

func isRunning(j slurmrest.Job) bool { return j.State == (slurmrest.State{Base: slurmrest.Running}) }

// mustSucceed fails the test on an error.
func (l *live) mustSucceed(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// mustBe fails the test unless the error has the expected meaning.
func (l *live) mustBe(err, want error) {
	l.Helper()
	if !errors.Is(err, want) {
		l.Errorf("error %v; want one that is %q", err, want)
	}
}

const sleeper = "#!/bin/sh\nexec sleep 600\n"

// submitJob submits for alice and cancels when the test ends.
func (l *live) submitJob(job slurmrest.JobSubmit) slurmrest.Ref {
	l.Helper()
	if job.Script == "" {
		job.Script = sleeper
	}
	if job.WorkDir == "" {
		job.WorkDir = "/tmp"
	}
	done, err := l.alice.Submit(l.Context(), job)
	l.mustSucceed(err)
	ref := slurmrest.JobID(done.ID)
	l.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.root.Cancel(ctx, ref); err != nil {
			l.Errorf("cancel: %v", err)
		}
	})
	return ref
}

func pointerTo[T any](v T) *T { return &v }
