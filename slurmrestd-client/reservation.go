// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// NewReservation is a reservation to be made.
type NewReservation struct {
	Name     string
	Start    time.Time
	Duration time.Duration // in whole minutes
	Nodes    []string      // just these
	Users    []string      // that may use the reservation
	Flags    []string      // "IGNORE_JOBS"
	Comment  string        // left out where reservations have no comment (v0.0.38)
}

// errNoName is the error for a name that fits neither into a path nor into a command of scontrol.
var errNoName = errors.New("want letters, digits and -_.: only")

func checkReservation(name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r != ':' && notHostByte(r) }) {
		return fmt.Errorf("reservation %q: %w", clipText(name, 40), errNoName)
	}
	return nil
}

// CreateReservation makes a reservation, as an operator. Versions before v0.0.45 cannot: then
// Config.Scontrol does, or the error is an UnsupportedError. Do not use a name that is taken:
// scontrol refuses the name, REST edits the existing reservation.
func (c *Client) CreateReservation(ctx context.Context, r NewReservation) error {
	if err := checkReservation(r.Name); err != nil {
		return err
	}
	subject := "reservation " + r.Name
	return c.changeReservation(ctx, subject, func(p *peer) *call {
		request := body{
			"name": r.Name, "start_time": numberBody(r.Start.Unix()), "duration": numberBody(int64(r.Duration / time.Minute)),
			"node_list": r.Nodes, "users": r.Users, "flags": r.Flags,
		}
		putText(request, "comment", r.Comment)
		return postCall(p, subject, request, "reservation")
	}, func(p *peer) []string {
		args := []string{
			"create", "Reservation=" + r.Name, "StartTime=" + utsSeconds(r.Start), fmt.Sprintf("Duration=%d", r.Duration/time.Minute),
			"Nodes=" + strings.Join(r.Nodes, ","), "Users=" + strings.Join(r.Users, ","), "Flags=" + strings.Join(r.Flags, ","),
		}
		if r.Comment != "" && p.listAbilities().resComment {
			args = append(args, "Comment="+r.Comment)
		}
		return args
	})
}

// DeleteReservation deletes a reservation, as an operator. The error is ErrNoReservation if no
// reservation has the name, and ErrReservationInUse if a job that has not ended is in the
// reservation: take the job out before (JobUpdate.Reservation).
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	if err := checkReservation(name); err != nil {
		return err
	}
	subject := "reservation " + name
	return c.changeReservation(ctx, subject, func(p *peer) *call {
		return &call{method: http.MethodDelete, path: pathOf(p, "reservation", name), subject: subject}
	}, func(*peer) []string { return []string{"delete", "Reservation=" + name} })
}

// KeepsReservationsApart reports whether a job in a reservation with the flags FLEX and OVERLAP
// stays out of the reservations of other users. Before Slurm 26.05 such a job starts in them.
func (c *Client) KeepsReservationsApart(ctx context.Context) (bool, error) {
	p, err := c.currentPeer(ctx)
	if err != nil {
		return false, err
	}
	return p.listAbilities().resApart, nil
}

// changeReservation asks slurmrestd where slurmrestd can, and scontrol where not.
func (c *Client) changeReservation(ctx context.Context, subject string, ask func(*peer) *call, args func(*peer) []string) error {
	p, err := c.currentPeer(ctx)
	if err != nil {
		return err
	}
	if !p.listAbilities().reserve && c.cfg.Scontrol != nil {
		err := c.runScontrol(ctx, subject, args(p)...)
		if isMissing(err) {
			err = &UnsupportedError{Feature: "reservations by scontrol", Needs: "an scontrol", Found: err.Error()}
		}
		return err
	}
	_, err = c.requestWithRetries(ctx, operation{build: func(p *peer) (*call, error) {
		if !p.listAbilities().reserve {
			return nil, noAbility(p, "reservations over REST", V0045+" (Slurm 26.05), or Config.Scontrol")
		}
		return ask(p), nil
	}})
	return err
}
