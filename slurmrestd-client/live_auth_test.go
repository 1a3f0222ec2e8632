// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build live

package slurmrest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestLiveSocket: root on the unix socket is the user that slurmrestd runs as,
// here an operator.
func TestLiveSocket(t *testing.T) {
	for _, version := range servedVersions(t) {
		t.Run(version, func(t *testing.T) {
			root := newClient(t, slurmrest.Config{Address: *socketFlag, Versions: []string{version}})
			cfg := rootConfig(t, version)
			cfg.AsUser = "alice"
			l := &live{T: t, root: root, alice: newClient(t, cfg)}
			ref := l.submitJob(slurmrest.JobSubmit{})
			l.waitForJob(ref, "running", isRunning)
			l.mustSucceed(root.Update(t.Context(), ref, slurmrest.JobUpdate{Comment: pointerTo("by socket")}))
			if j := l.readJob(ref); j.Comment != "by socket" {
				l.Errorf("comment %q", j.Comment)
			}
			info, err := root.Cluster(t.Context())
			if err != nil || info.Version != version || info.Name == "" {
				l.Errorf("%+v, %v", info, err)
			}
			if _, err := root.QOS(t.Context()); err != nil {
				l.Error(err)
			}
		})
	}
}

// TestLiveTokens: a token file that is replaced, a token that expires, a file
// without a token, and no file.
func TestLiveTokens(t *testing.T) {
	for _, version := range servedVersions(t) {
		t.Run(version, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			c := newClient(t, slurmrest.Config{Address: *urlFlag, Token: slurmrest.TokenFile(path, "root"), Versions: []string{version}})
			l := &live{T: t, root: c}
			writeToken(t, path, "root", 3*time.Second)
			_, _, err := c.ListJobs(t.Context(), time.Time{})
			l.mustSucceed(err)
			l.waitFor("the token expires", func(ctx context.Context) (string, bool) {
				_, _, err := c.ListJobs(ctx, time.Time{})
				if err == nil {
					return "it is good", false
				}
				l.mustBe(err, slurmrest.ErrAuth)
				return err.Error(), true
			})
			_, err = c.QOS(t.Context())
			l.mustBe(err, slurmrest.ErrAuth)
			writeToken(t, path, "root", time.Hour)
			_, _, err = c.ListJobs(t.Context(), time.Time{})
			l.mustSucceed(err)
			_, err = c.QOS(t.Context())
			l.mustSucceed(err)
			l.mustSucceed(os.WriteFile(path, []byte("not.a.token"), 0o600))
			_, _, err = c.ListJobs(t.Context(), time.Time{})
			l.mustBe(err, slurmrest.ErrAuth)
		})
	}
}
