// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"net/http"
)

const (
	numberUnspecified = -1   // SLURM_ERROR: 22.05 gives this number for every failure
	numberDatabase    = 7000 // ESLURM_DB_CONNECTION
	numberBadToken    = 1007 // SLURM_PROTOCOL_AUTHENTICATION_ERROR
)

// explainError finds out whether the token is the cause of an error that does not mention the token.
// slurmrestd passes tokens on unread, and the answer to a bad one depends on the daemon that was asked:
// slurmctld's refusal is "Unspecified error" over v0.0.38, and slurmdbd's is "Unable to connect to
// database" since v0.0.40. The other daemon names the token as the cause, so explainError asks that
// daemon a single time.
func (c *Client) explainError(ctx context.Context, p *peer, err error) error {
	var e *Error
	if c.cfg.Token == nil || !errors.As(err, &e) {
		return err
	}
	var ask *call
	switch {
	case e.Number == numberUnspecified && e.Method == http.MethodGet && p.versionName() == V0038:
		ask = getCall(p, "token")
		ask.path = dbPathOf(p, "clusters", "")
	case e.Number == numberDatabase && p.versionName() != V0038:
		ask = getCall(p, "token", "reservations", "")
	default:
		return err
	}
	_, other := c.exchangeObserved(ctx, ask, answerFields)
	var said *Error
	switch {
	case other == nil && e.Number == numberUnspecified: // slurmctld does not answer
		e.is = append(e.is, ErrController)
		e.Retryable = true
	case errors.As(other, &said) && said.Number == numberBadToken:
		e.is = []error{ErrAuth}
		e.Retryable = false
		e.Text, e.Number = said.Text, said.Number
	}
	return err
}
