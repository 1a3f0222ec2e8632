// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"fmt"
	"strings"
)

// Nodes lists all nodes.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	return listRecords(ctx, c, "nodes", pathOf, func(p *peer) table[Node] { return p.nodeTable() })
}

// Node returns a node. The error is ErrInvalidNodeName if there is no such node.
func (c *Client) Node(ctx context.Context, name string) (Node, error) {
	if err := checkNodeName(name); err != nil {
		return Node{}, err
	}
	var all []Node
	a, err := c.requestWithRetries(ctx, operation{
		build: func(p *peer) (*call, error) { return getCall(p, "node "+name, "node", name), nil },
		fields: func(p *peer) table[answer] {
			all = nil
			return recordsField("nodes", p.nodeTable(), collectInto(&all))
		},
	})
	switch {
	case len(a.Errors) == 1 && a.Errors[0].Number == 0 && len(all) == 0:
		// From v0.0.40 on the complaint has no number: "No error".
		return Node{}, fmt.Errorf("node %s: %s: %w", name, printableText(a.Errors[0].Description, 200), ErrInvalidNodeName)
	case err != nil:
		return Node{}, err
	case len(all) != 1:
		return Node{}, fmt.Errorf("node %s: %d records: %w", name, len(all), ErrInvalidNodeName)
	}
	return all[0], nil
}

// UpdateNode edits a node, as an operator. v0.0.38 cannot edit nodes: then Config.Scontrol does, or
// the error is an UnsupportedError.
func (c *Client) UpdateNode(ctx context.Context, name string, edit NodeUpdate) error {
	if err := checkNodeName(name); err != nil {
		return err
	}
	if err := edit.checkFields(); err != nil {
		return wrapError("node "+name, err)
	}
	p, err := c.currentPeer(ctx)
	if err != nil {
		return err
	}
	if !p.listAbilities().updateNode && c.cfg.Scontrol != nil {
		return c.runScontrol(ctx, "node "+name, scontrolNode(name, edit)...)
	}
	_, err = c.requestWithRetries(ctx, operation{build: func(p *peer) (*call, error) {
		request := p.nodeUpdate(edit)
		return postCall(p, "node "+name, request.body, "node", name), wrapError("node "+name, request.err)
	}})
	return err
}

// DrainNode lets a node take no new job. Jobs that run on the node go on. Draining a node
// twice replaces the reason.
func (c *Client) DrainNode(ctx context.Context, name, reason string) error {
	state := "DRAIN"
	return c.UpdateNode(ctx, name, NodeUpdate{State: &state, Reason: &reason})
}

// ResumeNode undoes a drain. A node that is neither drained nor down is
// ErrNodeState.
func (c *Client) ResumeNode(ctx context.Context, name string) error {
	state := "RESUME"
	return c.UpdateNode(ctx, name, NodeUpdate{State: &state})
}

// checkNodeName refuses a text that is not the name of a single node, such as a host list
// expression.
func checkNodeName(name string) error {
	if name == "" || len(name) > 255 || strings.Trim(name, ".") == "" || strings.ContainsFunc(name, notHostByte) {
		return fmt.Errorf("node %q: %w", clipText(name, 40), ErrInvalidNodeName)
	}
	return nil
}

func notHostByte(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}
