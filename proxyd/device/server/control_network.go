// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
)

// Address is where the job's other device servers reach this server, for collectives: the argument of their Reconnect.
// The address is a single word that only their Reconnect reads, and another word in each life of a server; "" if no
// other server needs it, because no communicator was ever made here.
func (s *Server) Address(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	at, err := s.collectives.Address()
	if err != nil {
		return "", fmt.Errorf("address: %w", err)
	}
	return at, nil
}

// Reconnect makes the communicators again of a server that was restored. peers is where all of the job's device servers are
// today, by their numbers, as their Address says. Reconnect is called on all of them at the same time, after Restore
// and Adopt and before Resume; Reconnect returns when all are connected, or with the name of the server that does not
// come, when ctx is done at the latest. Then Reconnect may be called again, on all of them. A server whose
// communicators have all their ranks here need not be reconnected.
func (s *Server) Reconnect(ctx context.Context, peers map[int]string) error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if !s.state.stopped {
		return errors.New("reconnect: the job is not stopped")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.collectives.Reconnect(ctx, peers); err != nil {
		return fmt.Errorf("reconnect: %w", err)
	}
	return nil
}

// Address asks a server for its address; see Server.Address.
func (c *Controller) Address(ctx context.Context) (string, error) {
	t, err := c.giveOrder(ctx, &order{Do: "address"}, nil, nil)
	if err != nil {
		return "", err
	}
	at := ""
	if err := t.parseInto(&at); err != nil {
		return "", err
	}
	return at, nil
}

// Reconnect makes the communicators again of a server that was restored; see Server.Reconnect.
func (c *Controller) Reconnect(ctx context.Context, peers map[int]string) error {
	t, err := c.giveOrder(ctx, &order{Do: "reconnect", Peers: peers}, nil, nil)
	if err == nil && t.f != nil {
		t.f.Close()
	}
	return err
}
