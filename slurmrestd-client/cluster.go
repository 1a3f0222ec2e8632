// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// Version returns the version of the REST API that the client speaks, and negotiates it first if
// necessary. A later call may return another version: the server can be upgraded meanwhile.
func (c *Client) Version(ctx context.Context) (string, error) {
	p, err := c.currentPeer(ctx)
	if err != nil {
		return "", err
	}
	return p.versionName(), nil
}

// Ping asks slurmrestd for its controllers. A controller that is down is in the list and is no
// error; only if no controller answers at all, the error is ErrController.
func (c *Client) Ping(ctx context.Context) ([]Controller, error) {
	_, controllers, err := c.pingControllers(ctx)
	return controllers, err
}

func (c *Client) pingControllers(ctx context.Context) (answer, []Controller, error) {
	var all []Controller
	a, err := c.requestWithRetries(ctx, operation{
		build: func(p *peer) (*call, error) { return getCall(p, "ping", "ping", ""), nil },
		fields: func(*peer) table[answer] {
			all = nil
			return recordsField("pings", controllerFields, collectInto(&all))
		},
	})
	return a, all, err
}

// Cluster describes the cluster behind the server. Over v0.0.38 the name is slurmdbd's, if slurmdbd
// has only a single cluster; a slurmdbd that does not answer makes the name empty, not an error.
func (c *Client) Cluster(ctx context.Context) (ClusterInfo, error) {
	a, controllers, err := c.pingControllers(ctx)
	if err != nil {
		return ClusterInfo{}, err
	}
	p, err := c.currentPeer(ctx)
	if err != nil {
		return ClusterInfo{}, err
	}
	info := ClusterInfo{Name: a.Cluster, Release: a.Release, Version: p.versionName(), Controllers: controllers}
	if info.Name == "" {
		info.Name, err = c.onlyCluster(ctx)
		var refused *Error
		if errors.As(err, &refused) {
			err = nil
		}
	}
	return info, err
}

// onlyCluster asks slurmdbd for its clusters.
func (c *Client) onlyCluster(ctx context.Context) (string, error) {
	type cluster struct{ name string }
	fields := table[cluster]{"name": textField(func(c *cluster) *string { return &c.name })}
	all, err := listRecords(ctx, c, "clusters", dbPathOf, func(*peer) table[cluster] { return fields })
	if err != nil || len(all) != 1 {
		return "", err
	}
	return all[0].name, nil
}

// Partitions lists all partitions.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	return listRecords(ctx, c, "partitions", pathOf, func(p *peer) table[Partition] { return p.partitionTable() })
}

// Reservations lists all reservations.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	return listRecords(ctx, c, "reservations", pathOf, func(*peer) table[Reservation] { return reservationFields })
}

// QOS lists the qualities of service, by name; slurmdbd must answer.
func (c *Client) QOS(ctx context.Context) ([]QOS, error) {
	all, err := listRecords(ctx, c, "qos", dbPathOf, func(*peer) table[QOS] { return qosFields })
	slices.SortFunc(all, func(a, b QOS) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// listRecords asks for all records of a kind. The name is the path's, the records' and, in capitals, the
// name of v0.0.38's QOS.
func listRecords[T any](ctx context.Context, c *Client, name string, path func(dialect, ...string) string,
	fields func(*peer) table[T]) ([]T, error) {
	var all []T
	_, err := c.requestWithRetries(ctx, operation{
		build: func(p *peer) (*call, error) {
			return &call{method: http.MethodGet, path: path(p, name, ""), subject: name, safe: true}, nil
		},
		fields: func(p *peer) table[answer] {
			all = nil
			rows := recordsField(name, fields(p), collectInto(&all))
			rows[strings.ToUpper(name)] = rows[name]
			return rows
		},
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Diag returns slurmctld's counters about its own health.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	var d Diag
	_, err := c.requestWithRetries(ctx, operation{
		build: func(p *peer) (*call, error) { return getCall(p, "diag", "diag", ""), nil },
		fields: func(*peer) table[answer] {
			d = Diag{}
			return table[answer]{"statistics": func(s *scanner, _ *answer) { diagFields.readObject(s, &d) }}
		},
	})
	return d, err
}
