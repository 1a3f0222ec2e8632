// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

func TestRealm(t *testing.T) { mungetest.Run(t, mungetest.NewRealm().As) }

func TestRealMunge(t *testing.T) { mungetest.Run(t, mungetest.Start(t).As) }

func TestRealmExpires(t *testing.T) {
	realm := mungetest.NewRealm()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		c, err := realm.As(7, 7).Encode(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		realm.Now = func() time.Time { return time.Now().Add(off) }
		if _, err := realm.As(0, 0).Decode(t.Context(), c); !errors.Is(err, munge.ErrExpired) {
			t.Errorf("Decode by a clock that is off by %s: %v; want ErrExpired", off, err)
		}
		realm.Now = time.Now
	}
}

// TestOnlyRootReads shows that a user with another's credential cannot read its payload.
func TestOnlyRootReads(t *testing.T) {
	m := mungetest.Start(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv (util-linux)")
	}
	c, err := m.As(0, 0).Encode(t.Context(), []byte("the key"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(setpriv, "--reuid=1001", "--regid=1001", "--clear-groups", "unmunge", "--socket="+m.Socket)
	cmd.Stdin = strings.NewReader(c)
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "the key") || !strings.Contains(string(out), "Unauthorized") {
		t.Errorf("unmunge by user 1001 = %q, %v; want Unauthorized", out, err)
	}
}

func TestNoMunged(t *testing.T) {
	if _, err := exec.LookPath("munge"); err != nil {
		t.Skip("needs munge")
	}
	p := munge.Programs{Socket: "/nowhere/socket"}
	_, err := p.Encode(t.Context(), nil)
	if !errors.Is(err, munge.ErrNoMunge) || !strings.Contains(err.Error(), "/nowhere/socket") {
		t.Errorf("Encode without munged: %v; want ErrNoMunge", err)
	}
	_, err = p.Decode(t.Context(), "MUNGE:AAAA:")
	if !errors.Is(err, munge.ErrNoMunge) || errors.Is(err, munge.ErrRefused) {
		t.Errorf("Decode without munged: %v; want ErrNoMunge", err)
	}
	_, err = munge.Programs{Munge: "/nowhere/munge"}.Encode(t.Context(), nil)
	if !errors.Is(err, munge.ErrNoMunge) || !strings.Contains(err.Error(), "/nowhere/munge") {
		t.Errorf("Encode without the program: %v; want ErrNoMunge", err)
	}
}
