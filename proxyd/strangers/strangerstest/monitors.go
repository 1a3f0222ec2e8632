// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package strangerstest has the common parts of tests of servers that bound their connections.
package strangerstest

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// LoggedAddress returns the address of a server, which the only line of a log in JSON says.
func LoggedAddress(t *testing.T, log []byte) string {
	t.Helper()
	var said struct{ Address string }
	if err := json.Unmarshal(log, &said); err != nil {
		t.Fatalf("parse the log: %v: %s", err, log)
	}
	return said.Address
}

// CheckMonitorsMakeRoom makes more connections than an HTTP server has at most, each of which stays after a request, and
// checks that the server closes a connection.
func CheckMonitorsMakeRoom(t *testing.T, address string, most int) {
	t.Helper()
	closed := make(chan error, most+1)
	for range most + 1 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /no-page HTTP/1.1\r\nHost: monitored\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // a deadline fails only on a closed connection
		go func() {
			_, err := io.Copy(io.Discard, conn)
			closed <- err
		}()
	}
	// A connection with a request that the server has not read yet ends by a reset.
	if err := <-closed; err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the first connection that ends: %v, want that the server has closed it", err)
	}
}
