// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"slices"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Reservations returns all reservations.
func (s *Server) Reservations() []slurmrest.Reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reservations)
}

// makeReservation makes a reservation, or edits the reservation of that name, as slurmrestd does.
func (s *Server) makeReservation(q question) (object, *refusal) {
	fields, no := parseObject(q.raw)
	if no != nil {
		return nil, no
	}
	name, _ := fields["name"].(string)
	start := time.Unix(numberOf(fields["start_time"]).Value, 0)
	made := slurmrest.Reservation{
		Name: name, Start: start, End: start.Add(time.Duration(numberOf(fields["duration"]).Value) * time.Minute),
		Nodes: textsIn(fields["node_list"]), Users: textsIn(fields["users"]), Flags: strings.Split(textsIn(fields["flags"]), ","),
	}
	at := slices.IndexFunc(s.reservations, func(r slurmrest.Reservation) bool { return r.Name == name })
	if at < 0 {
		s.reservations = append(s.reservations, made)
	} else {
		s.reservations[at] = made
	}
	return object{"reservations": []any{fields}}, nil
}

func (s *Server) deleteReservation(q question) (object, *refusal) {
	for _, j := range s.jobs {
		if len(q.rest) == 1 && j.Reservation == q.rest[0] && !j.State.Finished() {
			return nil, &refusal{number: 2055, status: 422, why: "Error deleting reservation " + q.rest[0]}
		}
	}
	before := len(s.reservations)
	s.reservations = slices.DeleteFunc(s.reservations, func(r slurmrest.Reservation) bool { return len(q.rest) == 1 && r.Name == q.rest[0] })
	if len(s.reservations) == before {
		return nil, &refusal{number: 2053, status: 422, why: "Error deleting reservation " + strings.Join(q.rest, "/")}
	}
	return object{}, nil
}

// textsIn is a list of texts, with commas.
func textsIn(v any) string {
	list, _ := v.([]any)
	var all []string
	for _, one := range list {
		if text, ok := one.(string); ok {
			all = append(all, text)
		}
	}
	return strings.Join(all, ",")
}
