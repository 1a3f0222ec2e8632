// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

var night = slurmrest.NewReservation{
	Name: "night:n1:7", Start: time.Unix(2110704601, 0), Duration: time.Hour, Nodes: []string{"n1", "n2"}, Users: []string{"root"},
	Flags: []string{"IGNORE_JOBS", "OVERLAP"}, Comment: "two words",
}

func TestReservationREST(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{})
	c := clientFor(t, s, func(cfg *slurmrest.Config) { cfg.Scontrol = &scontrol{none: errors.New("not to be asked")} })
	if err := c.CreateReservation(t.Context(), night); err != nil {
		t.Fatal(err)
	}
	all, err := c.Reservations(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != night.Name || !all[0].Start.Equal(night.Start) || all[0].End.Sub(all[0].Start) != time.Hour ||
		all[0].Nodes != "n1,n2" || all[0].Users != "root" || !slices.Equal(all[0].Flags, night.Flags) {
		t.Errorf("Reservations = %+v, %v; want the one that was created", all, err)
	}
	s.AddJob(slurmrest.Job{ID: 5, Reservation: night.Name})
	s.StartJob(5, "n1")
	if err := c.DeleteReservation(t.Context(), night.Name); !errors.Is(err, slurmrest.ErrReservationInUse) {
		t.Errorf("DeleteReservation with a job in it: %v; want ErrReservationInUse", err)
	}
	if err := c.Update(t.Context(), slurmrest.JobID(5), slurmrest.JobUpdate{Reservation: new(string)}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteReservation(t.Context(), night.Name); err != nil {
		t.Error(err)
	}
	if err := c.DeleteReservation(t.Context(), night.Name); !errors.Is(err, slurmrest.ErrNoReservation) {
		t.Errorf("DeleteReservation again: %v; want ErrNoReservation", err)
	}
	if apart, err := c.KeepsReservationsApart(t.Context()); err != nil || !apart {
		t.Errorf("KeepsReservationsApart = %v, %v; want true", apart, err)
	}
	for _, bad := range []string{"", "a b", "a,b", "a/b", "a=b"} {
		if err := c.DeleteReservation(t.Context(), bad); err == nil || errors.Is(err, slurmrest.ErrNoReservation) {
			t.Errorf("DeleteReservation(%q): %v; want an error about the name", bad, err)
		}
	}
}

func TestReservationScontrol(t *testing.T) {
	const made = "create Reservation=night:n1:7 StartTime=uts2110704601 Duration=60 Nodes=n1,n2 Users=root Flags=IGNORE_JOBS,OVERLAP"
	for _, test := range []struct{ version, want string }{
		{slurmrest.V0038, made},
		{slurmrest.V0042, made + " Comment=two words"},
	} {
		run := &scontrol{}
		c := clientFor(t, slurmresttest.Start(t, slurmresttest.Options{Versions: []string{test.version}}), func(cfg *slurmrest.Config) { cfg.Scontrol = run })
		if apart, err := c.KeepsReservationsApart(t.Context()); err != nil || apart {
			t.Errorf("%s: KeepsReservationsApart = %v, %v; want false", test.version, apart, err)
		}
		if err := c.CreateReservation(t.Context(), night); err != nil {
			t.Fatal(err)
		}
		if err := c.DeleteReservation(t.Context(), night.Name); err != nil {
			t.Fatal(err)
		}
		if want := []string{test.want, "delete Reservation=night:n1:7"}; !slices.Equal(run.calls, want) {
			t.Errorf("%s: %q; want %q", test.version, run.calls, want)
		}
		run.err = &slurmrest.ScontrolError{Exit: 1, Output: "delete_reservation reservation=x: Requested reservation is invalid"}
		if err := c.DeleteReservation(t.Context(), night.Name); !errors.Is(err, slurmrest.ErrNoReservation) {
			t.Errorf("%s: one that is gone: %v", test.version, err)
		}
		run.err = exec.ErrNotFound
		if err := c.CreateReservation(t.Context(), night); !errors.Is(err, slurmrest.ErrUnsupported) {
			t.Errorf("%s: CreateReservation without the program: %v; want ErrUnsupported", test.version, err)
		}
		c = clientFor(t, slurmresttest.Start(t, slurmresttest.Options{Versions: []string{test.version}}), func(*slurmrest.Config) {})
		if err := c.CreateReservation(t.Context(), night); !errors.Is(err, slurmrest.ErrUnsupported) {
			t.Errorf("%s: CreateReservation without Config.Scontrol: %v; want ErrUnsupported", test.version, err)
		}
	}
}
