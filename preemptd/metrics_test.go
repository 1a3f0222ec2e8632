// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/metrics"
)

// TestManyMonitors: connections that stay after a request, as many as the server has at most and more, keep no monitor out: an
// old connection is closed.
func TestManyMonitors(t *testing.T) {
	var log bytes.Buffer
	c := &controller{log: slog.New(slog.NewJSONHandler(&log, nil)), metrics: metrics.New(metrics.Options{})}
	cfg := &config.Config{}
	cfg.Metrics.Address = "127.0.0.1:0"
	c.cfg.Store(cfg)
	undo, err := c.serveMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	var said struct{ Address string }
	if err := json.Unmarshal(log.Bytes(), &said); err != nil {
		t.Fatalf("parse the log: %v: %s", err, &log)
	}
	closed := make(chan error, maxMonitors+1)
	for range maxMonitors + 1 {
		conn, err := net.Dial("tcp", said.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /no-page HTTP/1.1\r\nHost: ctl\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // a deadline fails only on a closed connection
		go func() {
			_, err := io.Copy(io.Discard, conn)
			closed <- err
		}()
	}
	if err := <-closed; err != nil {
		t.Errorf("the first connection that ends: %v, want that the server has closed it", err)
	}
}
